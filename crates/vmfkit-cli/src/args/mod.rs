//! Options that several commands have.

pub mod all_settings;
pub mod row_output;
pub mod rows;
pub mod settings;

/// Headings of options. An option has the same heading in every command.
pub const INPUT: &str = "Input";
pub const MODEL: &str = "Model";
pub const FITTING: &str = "Fitting";
pub const ONE_DENSITY: &str = "One density";
pub const KNOWN_LABELS: &str = "Known labels";
pub const TESTS: &str = "Tests";
pub const OUTPUT: &str = "Output";
pub const GENERAL: &str = "General";

/// Options for what a command prints.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = OUTPUT)]
pub struct ReportArguments {
    /// Print one JSON object
    ///
    /// It is printed to standard error if standard output holds the result.
    /// Infinities are the strings "inf" and "-inf".
    #[arg(verbatim_doc_comment, long, display_order = 90)]
    pub json: bool,
    /// Hide progress and hints
    #[arg(long, short, display_order = 91)]
    pub quiet: bool,
}
