//! The `ringroad` command: one small file for each verb.
#![forbid(unsafe_code)]

mod apply;
mod capture;
mod check;
mod data_plane;
mod doctor;
mod events;
mod lab;
mod ps;
mod run;
mod set;
mod show;
mod stop;
mod top;
mod trace;

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
    #[command(disable_help_flag = true)]
    Demo(lab::Words),
    /// Bring a file up and show what it does, until Ctrl-C.
    Run(run::Options),
    /// What runs: all runs of this user, with their routers.
    Ps {
        /// One JSON object a run and line.
        #[arg(long)]
        json: bool,
    },
    /// What every NIC, router and thread of running instances does, second by second, until Ctrl-C.
    Top(top::Options),
    /// A router as it runs: plan, addresses, routes, threads, state, last trouble.
    Show {
        /// The router.
        name: String,
        /// As one JSON object on a line.
        #[arg(long)]
        json: bool,
    },
    /// What has changed in a run, or about a router: started, failed, restarted, applied ...
    Events {
        /// The router or run.
        name: String,
        /// One JSON object a change and line.
        #[arg(long)]
        json: bool,
    },
    /// Change a setting of a router that runs, or of a NIC, as router.nic.
    #[command(after_help = set::keys())]
    Set {
        /// The router, or a NIC of it as router.nic.
        name: String,
        /// The setting, as KEY=VALUE; for a NIC link=up or link=down.
        setting: String,
    },
    /// Stop a router, or a whole run; where both have the name, the router.
    Stop {
        /// The router or run.
        name: String,
    },
    /// Start a router that was stopped or has failed.
    Start {
        /// The router.
        name: String,
    },
    /// Stop a router and start it again.
    Restart {
        /// The router.
        name: String,
    },
    /// Follow packets that arrive at a NIC to where they leave, or to what dropped them.
    Trace(trace::Options),
    /// Write what passes a NIC into a pcap file, while it runs.
    Capture(capture::Options),
    /// Make a run what a file says, by the difference: what is the same goes on undisturbed.
    Apply(apply::Options),
    /// Check a file, print its plan and what this host can and cannot do for it; changes nothing.
    Check {
        /// The TOML file.
        file: PathBuf,
        /// One JSON object a line.
        #[arg(long)]
        json: bool,
    },
    /// Measure: experiments by name, and what came out.
    #[command(disable_help_flag = true)]
    Lab(lab::Words),
    /// Look at this host: KVM, uplinks, CPUs, schedulers, clocks, limits; changes nothing.
    Doctor {
        /// One JSON object a line.
        #[arg(long)]
        json: bool,
    },
    /// What forwards: started by `run`, never by hand.
    #[command(hide = true)]
    DataPlane(data_plane::Options),
    /// What removes the files of a run that was killed: started by `run`, never by hand.
    #[command(hide = true)]
    Cleaner {
        /// Process number of the run.
        run: u32,
    },
}

fn main() -> ExitCode {
    let outcome = match Command::parse().verb {
        Verb::Demo(words) => lab::lab(Some("demo"), &words),
        Verb::Run(options) => run::run(options),
        Verb::Ps { json } => ps::ps(json),
        Verb::Top(options) => top::top(&options),
        Verb::Show { name, json } => show::show(&name, json),
        Verb::Events { name, json } => events::events(&name, json),
        Verb::Set { name, setting } => set::set(&name, &setting),
        Verb::Stop { name } => stop::stop(&name),
        Verb::Start { name } => stop::start(&name),
        Verb::Restart { name } => stop::restart(&name),
        Verb::Trace(options) => trace::trace(&options),
        Verb::Capture(options) => capture::capture(&options),
        Verb::Apply(options) => apply::apply(&options),
        Verb::Check { file, json } => check::check(&file, json),
        Verb::Lab(words) => lab::lab(None, &words),
        Verb::Doctor { json } => doctor::doctor(json),
        Verb::DataPlane(options) => data_plane::data_plane(&options),
        Verb::Cleaner { run } => supervisor::clean_up_after(run),
    };
    command_line::end(outcome)
}
