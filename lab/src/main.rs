//! The `ringroad-lab` program, which `ringroad lab` and `ringroad demo` start, with one file per verb.
#![forbid(unsafe_code)]

mod demo;
mod figures;
mod flood;
mod options;
mod report;
mod run;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use command_line::print;

use options::RunOptions;

/// Run experiments by name, and report their results.
#[derive(Debug, Parser)]
#[command(name = "ringroad-lab", bin_name = "ringroad lab", version, arg_required_else_help = true)]
struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the experiments, and what each measures.
    List,
    /// Run experiments; each case ends in a RESULT line.
    Run {
        /// Names from the list; 001/fig1 stands for all of its parts (001/fig1a, …).
        #[arg(required = true)]
        names: Vec<String>,
        #[command(flatten)]
        options: Box<RunOptions>,
    },
    /// Send small frames to NICs of running routers, by their TAPs, until Ctrl-C.
    Flood(flood::FloodOptions),
    /// Write a synthetic full table of the Internet, to be replayed by a BGP speaker.
    Table(table::TableOptions),
    /// Print a Markdown table of a file that `--json` wrote.
    Report {
        /// The file: one JSON object per line.
        file: PathBuf,
    },
    /// Two networks with the kernel's own stacks, a router VM between them, and a flood; ends by itself.
    #[command(override_usage = "ringroad demo [OPTIONS]")]
    Demo(demo::Options),
}

fn main() -> ExitCode {
    command_line::end(carry_out(Command::parse().verb))
}

fn carry_out(verb: Verb) -> Result<()> {
    match verb {
        Verb::List => print(&run::list()?),
        Verb::Run { names, options } => run::run_all(&names, &options),
        Verb::Flood(options) => flood::flood(&options),
        Verb::Table(options) => table::table(&options),
        Verb::Report { file } => print(&report::table(&file)?),
        Verb::Demo(options) => demo::demo(&options),
    }
}
