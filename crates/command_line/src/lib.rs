//! Common base of command line programs: output, error messages and exit codes, parsing of times, and access
//! to runs ([`client`]). Shared by `ringroad` and `ringroad-lab`, so that both behave alike.
#![forbid(unsafe_code)]

pub mod client;
pub mod group;

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::time::Duration;

/// Parses a time in seconds.
///
/// # Errors
/// The text is malformed, or the time is absurdly long.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a time; write seconds, e.g. 10 or 0.5");
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    // A thousand years suffice, and can be added to any moment.
    if seconds > 3.2e10 {
        return Err(wrong());
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

/// Exit code of a program; an error is reported on standard error first.
pub fn end(outcome: anyhow::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// Prints an error as one line on standard error; faults of a file are one line each and begin with its name,
/// as compilers do.
fn complain(error: &anyhow::Error) {
    let text = match error.downcast_ref::<config::Errors>() {
        Some(errors) => errors.to_string(),
        None => format!("ringroad: {error:#}").replace('\n', " "),
    };
    // If standard error is closed there is nothing left to do.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Writes to standard output; a closed pipe (`ringroad doctor | head -1`) is no error.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(text: &str) -> anyhow::Result<()> {
    print_while_read(text).map(drop)
}

/// Like [`print()`], for what is printed as long as somebody reads it. Returns false if the reader has closed the
/// pipe.
///
/// # Errors
/// Standard output cannot be written.
pub fn print_while_read(text: &str) -> anyhow::Result<bool> {
    written(&mut io::stdout(), text)
}

fn written(out: &mut impl Write, text: &str) -> anyhow::Result<bool> {
    match out.write_all(text.as_bytes()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writer that fails in this way.
    struct Failing(ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_has_left_is_no_error_but_it_is_known() {
        let mut text = Vec::new();
        assert!(written(&mut text, "a line\n").expect("there is room"));
        assert_eq!(text, b"a line\n");
        assert!(!written(&mut Failing(ErrorKind::BrokenPipe), "a line\n").expect("it is no error"));
        assert!(written(&mut Failing(ErrorKind::PermissionDenied), "a line\n").is_err());
    }
}
