//! `vmf help`: the help of a command, or a page on a topic.

use super::Arguments;
use crate::args::settings;
use crate::files::output;
use anyhow::Result;
use clap::CommandFactory;
use clap::builder::PossibleValuesParser;

const FORMATS: &str = "\
DATA is a file, a folder, a quoted pattern ('part-*.parquet'), or several of these, which are read
as one sequence of rows. `-` is standard input. Files may be larger than memory.

Formats, detected from the first bytes and the name unless --format is given:
  .npy           a two-dimensional array
  .npz           the only two-dimensional array, or that of --array; also a scipy CSR matrix
  .parquet       a column of lists, or columns of numbers (--columns)
  .arrow         Arrow IPC, also .feather; columns as in Parquet
  .csv, .tsv     text, also compressed by gzip (.csv.gz)
  .jsonl         JSON Lines: arrays, or objects with the key `embedding` or that of --columns
  .safetensors   the only two-dimensional tensor, or that of --array
  .mtx           Matrix Market, sparse or dense

Header of text files (--header auto): the first line is a header if none of its cells is a number,
or if it numbers at least three columns from 0, as pandas writes it. If it has no name for the
first column, that column is an index, not a coordinate.

Object stores: if `vmf` was built with the feature object-store, DATA may be a URL with s3://,
gs://, az:// or https://, such as s3://bucket/part-*.parquet.

Messages count rows from 0 and lines from 1.
";

const ANGLES: &str = "\
--angles NAMES reads rows that are angles, and --to-angles NAMES writes them:
  lat,lon        x = cos lat cos lon, y = cos lat sin lon, z = sin lat
  ra,dec         the same: ra is the longitude, dec the latitude
  dec,inc        x = cos inc cos dec (north), y = cos inc sin dec (east), z = sin inc (down)
  trend,plunge   the same as dec,inc
  theta,phi      x = sin theta cos phi, y = sin theta sin phi, z = cos theta (theta from the pole)
  angle          x = cos angle, y = sin angle: one column, directions of the circle

The order of the names is the order of the columns: lon,lat has the longitude first.
The columns are those of --columns; otherwise those with names such as `lat`, `Latitude` or
`lon_deg`; otherwise all columns.
Angles are in degrees. A name such as lat,lon,radians reads and writes radians.
Latitudes beyond a pole are refused. Longitudes may exceed a full circle.
";

/// Pages on topics, with their titles.
pub const TOPICS: [(&str, &str); 3] = [
    ("formats", "file formats that vmf reads"),
    ("angles", "rows as angles, such as latitude and longitude"),
    ("settings", "settings for vmf fit --set"),
];

/// All commands and topics; a test compares this list with the commands.
pub const PAGES: [&str; 22] = [
    "demo",
    "constants",
    "sample",
    "fit",
    "test",
    "select",
    "assign",
    "score",
    "calibrate",
    "compare",
    "inspect",
    "tree",
    "convert",
    "completions",
    "man",
    "accumulate",
    "merge",
    "maximise",
    "help",
    "formats",
    "angles",
    "settings",
];

/// Print the help of a command, or a page on formats, angles or settings
#[derive(Debug, clap::Args)]
pub struct Help {
    /// A command, or one of formats, angles and settings
    #[arg(value_name = "TOPIC", value_parser = PossibleValuesParser::new(PAGES), hide_possible_values = true)]
    topic: Option<String>,
}

/// The text of a topic; None for other names.
pub fn topic(name: &str) -> Option<String> {
    match name {
        "formats" => Some(FORMATS.to_owned()),
        "angles" => Some(ANGLES.to_owned()),
        "settings" => Some(settings::help()),
        _ => None,
    }
}

impl Help {
    pub fn run(&self) -> Result<()> {
        let mut command = Arguments::command();
        command.build();
        output::print(match &self.topic {
            None => command.render_long_help().to_string(),
            Some(name) => match topic(name) {
                Some(text) => text,
                None => {
                    let subcommand = command.find_subcommand_mut(name).expect("the parser of arguments knows the subcommands");
                    subcommand.render_long_help().to_string()
                }
            },
        })
    }
}
