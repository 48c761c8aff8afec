//! Encoding of messages as lines of JSON.

use serde::{Deserialize, Serialize};

use crate::{Answer, Error, Outcome, Request, VERSION};

#[derive(Serialize)]
struct RequestEnvelope<'a> {
    version: u32,
    request: &'a Request,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskIn {
    #[serde(rename = "version")]
    _version: u32,
    request: Request,
}

#[derive(Serialize)]
struct AnswerEnvelope<'a> {
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<&'a Answer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Error>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SayIn {
    #[serde(rename = "version")]
    _version: u32,
    answer: Option<Answer>,
    error: Option<Error>,
}

/// The one field that messages of all versions have.
#[derive(Deserialize)]
struct Versioned {
    version: Option<u32>,
}

/// Encodes a request as a line, including its newline.
pub fn encode_request(request: &Request) -> Result<Vec<u8>, Error> {
    line(&RequestEnvelope { version: VERSION, request })
}

/// Encodes an outcome as a line, including its newline.
pub fn encode_answer(outcome: &Outcome) -> Result<Vec<u8>, Error> {
    let (answer, error) = (outcome.as_ref().ok(), outcome.as_ref().err());
    line(&AnswerEnvelope { version: VERSION, answer, error })
}

/// Parses a request.
///
/// # Errors
/// What is wrong with the line, and how to correct it.
pub fn parse_request(line: &[u8]) -> Result<Request, Error> {
    check_version(line)?;
    let ask: AskIn = serde_json::from_slice(line).map_err(|error| not_understood("request", &error))?;
    Ok(ask.request)
}

/// Parses an outcome.
///
/// # Errors
/// The line is not an answer of this version.
pub fn parse_answer(line: &[u8]) -> Result<Outcome, Error> {
    check_version(line)?;
    let say: SayIn = serde_json::from_slice(line).map_err(|error| not_understood("answer", &error))?;
    match (say.answer, say.error) {
        (Some(answer), None) => Ok(Ok(answer)),
        (None, Some(error)) => Ok(Err(Error::new(error.message))),
        _ => Err(Error::new("not an answer: it has either \"answer\" or \"error\"")),
    }
}

fn line(message: &impl Serialize) -> Result<Vec<u8>, Error> {
    let mut line = serde_json::to_vec(message)
        .map_err(|error| Error::new(format!("a message cannot be written as JSON: {error}")))?;
    line.push(b'\n');
    Ok(line)
}

/// Refuses lines that are not JSON or have another version.
fn check_version(line: &[u8]) -> Result<(), Error> {
    let message: Versioned =
        serde_json::from_slice(line).map_err(|error| not_understood("message", &error))?;
    match message.version {
        Some(VERSION) => Ok(()),
        Some(other) => Err(Error::new(format!(
            "version {other} of the control protocol is not spoken here: send \"version\":{VERSION}"
        ))),
        None => Err(Error::new(format!("the message does not say its version: send \"version\":{VERSION}"))),
    }
}

fn not_understood(what: &str, error: &serde_json::Error) -> Error {
    Error::new(format!("not a {what} of version {VERSION}: {error}"))
}
