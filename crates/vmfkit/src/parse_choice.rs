//! [`ParseChoiceError`]: a text that is not one of the choices of an option.

/// A text that is not one of the choices of an option: the error of `FromStr` for all enums of
/// these crates.
///
/// ```
/// use std::error::Error;
/// let error = "lloyd".parse::<vmfkit::Method>().unwrap_err();
/// assert_eq!(error.text(), "lloyd");
/// assert!(error.to_string().starts_with("unknown method `lloyd`, expected one of em, hard, "));
/// // A number that cannot be parsed is the source.
/// let error = "fixed:1,5".parse::<vmfkit::ConcentrationPolicy>().unwrap_err();
/// assert!(error.to_string().starts_with("`1,5` is not a number in the policy `fixed:1,5`, expected one of auto"));
/// assert!(error.source().unwrap().is::<std::num::ParseFloatError>());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseChoiceError {
    what: &'static str,
    choices: String,
    text: String,
    number: Option<(String, std::num::ParseFloatError)>,
}

impl ParseChoiceError {
    /// `what` names the option, as in "method"; the message lists `choices` in this order.
    pub fn new(what: &'static str, choices: &[&str], text: &str) -> Self {
        ParseChoiceError { what, choices: choices.join(", "), text: text.to_owned(), number: None }
    }

    /// Adds the number within the text that cannot be parsed, and why.
    pub fn with_number(self, number: &str, error: std::num::ParseFloatError) -> Self {
        ParseChoiceError { number: Some((number.to_owned(), error)), ..self }
    }

    /// The text given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The choices, separated by commas.
    pub fn choices(&self) -> &str {
        &self.choices
    }
}

impl std::fmt::Display for ParseChoiceError {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let ParseChoiceError { what, choices, text, number } = self;
        match number {
            None => write!(f, "unknown {what} `{text}`, expected one of {choices}"),
            Some((number, _)) => write!(f, "`{number}` is not a number in the {what} `{text}`, expected one of {choices}"),
        }
    }
}

impl std::error::Error for ParseChoiceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.number.as_ref().map(|(_, error)| error as _)
    }
}
