//! The `ringroad` command: one small file for each verb.
#![forbid(unsafe_code)]

mod check;
mod demo;
mod doctor;
mod host;
mod lab;
mod run;
mod run_lock;
mod signals;
mod table;

use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Virtual routers on Linux that are fast, isolated, and keep the packet rate they promised.
#[derive(Parser)]
#[command(name = "ringroad", version, arg_required_else_help = true)]
struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Two networks with the kernel's own stacks, a router VM between them, a flood; ends by itself.
    Demo,
    /// Bring a file up and show what it does, until Ctrl-C.
    Run {
        /// The TOML file.
        file: PathBuf,
        /// Stop after so many seconds.
        #[arg(long)]
        seconds: Option<f64>,
        /// One JSON object a second instead of the live table.
        #[arg(long)]
        json: bool,
    },
    /// Check a file, print its plan and what this host can and cannot do for it; changes nothing.
    Check {
        /// The TOML file.
        file: PathBuf,
    },
    /// Measure: experiments by name, and what came out.
    Lab {
        #[command(subcommand)]
        verb: lab::Verb,
    },
    /// Look at this host: KVM, uplinks, CPUs, schedulers, clocks, limits; changes nothing.
    Doctor {
        /// One JSON object a line.
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    let outcome = match Command::parse().verb {
        Verb::Demo => demo::demo(),
        Verb::Run { file, seconds, json } => run::run(&file, &run::Options { seconds, json }),
        Verb::Check { file } => check::check(&file),
        Verb::Lab { verb } => lab::lab(verb),
        Verb::Doctor { json } => doctor::doctor(json),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::FAILURE
        }
    }
}

/// One line on stderr; faults of a file are one line each and begin with its name, as compilers do.
fn report(error: &anyhow::Error) {
    let text = match error.downcast_ref::<config::Errors>() {
        Some(errors) => errors.to_string(),
        None => format!("ringroad: {error:#}").replace('\n', " "),
    };
    // Nothing is left to be done where stderr is closed.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Writes to stdout; a reader that has left (`ringroad doctor | head -1`) is no fault.
fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
