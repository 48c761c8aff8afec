//! Command `ringroad`, with one small file for each verb.
#![forbid(unsafe_code)]

mod apply;
mod capture;
mod check;
mod data_plane;
mod doctor;
mod events;
mod exec;
mod lab;
mod ps;
mod remote;
mod routing;
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
    /// Demo: two namespaces with the kernel's own stacks, a router VM between them, and a flood of packets;
    /// ends on its own
    #[command(disable_help_flag = true)]
    Demo(lab::LabArgs),
    /// Bring a file up and show what it does, until Ctrl-C
    Run(run::Options),
    /// List all runs of this user, with their routers
    Ps {
        /// Print one JSON object per run and line
        #[arg(long)]
        json: bool,
        /// Show the members of groups instead of the groups
        #[arg(long)]
        members: bool,
    },
    /// Show the activity of every NIC, router and thread of running instances, second by second, until Ctrl-C
    Top(top::Options),
    /// Show a router: plan, addresses, routes, threads, state, last trouble; or what control planes have found: routes, route,
    /// neighbours, adjacencies, bfd
    Show {
        /// Name of the router; or routes, route, neighbours, adjacencies, bfd
        name: String,
        /// With routes a network, with route an address
        about: Option<String>,
        /// Only the control plane of this router
        #[arg(long, value_name = "ROUTER")]
        vrf: Option<String>,
        /// Print one JSON object on a line
        #[arg(long)]
        json: bool,
        /// Show each member of a group instead of the group
        #[arg(long)]
        members: bool,
    },
    /// Run a command in the network namespace of a router's control plane
    Exec(exec::ExecOptions),
    /// Open FRR's shell (vtysh) for a router
    Cli(exec::CliOptions),
    /// Show the events of a run or of a router: started, failed, restarted, applied ...
    Events {
        /// Name of the router or run
        name: String,
        /// Print one JSON object per event and line
        #[arg(long)]
        json: bool,
    },
    /// Change a setting of a running router, or of one of its NICs, as router.nic
    #[command(after_help = set::keys())]
    Set {
        /// Name of the router, or of a NIC as router.nic
        name: String,
        /// Setting as KEY=VALUE; for a NIC link=up or link=down
        setting: String,
    },
    /// Stop a router or a whole run; if both have the name, the router
    Stop {
        /// Name of the router or run
        name: String,
    },
    /// Start a router that was stopped or has failed
    Start {
        /// Name of the router
        name: String,
    },
    /// Stop a router and start it again
    Restart {
        /// Name of the router
        name: String,
    },
    /// Trace packets that arrive at a NIC to where they leave, or to what dropped them
    Trace(trace::Options),
    /// Capture the frames that pass a NIC into a pcap file
    Capture(capture::Options),
    /// Change a run to what a file says, by the difference: what is unchanged keeps running undisturbed
    Apply(apply::Options),
    /// Check a file; print its plan and what this host can and cannot do for it; changes nothing
    Check {
        /// Configuration file (TOML)
        file: PathBuf,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
        /// Print only the file for the other host that has this back end of a group: core_63
        #[arg(long, value_name = "MEMBER", conflicts_with = "json")]
        remote: Option<String>,
    },
    /// Print the file of a group's back end on another host, from the plan that runs; for `apply --stream` there
    Remote(remote::Options),
    /// Measure: run experiments by name, and print their results
    #[command(disable_help_flag = true)]
    Lab(lab::LabArgs),
    /// Examine this host: KVM, uplinks, CPUs, schedulers, clocks, limits; changes nothing
    Doctor {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// The forwarding process: started by `run`, never by hand
    #[command(hide = true)]
    DataPlane(data_plane::Options),
    /// The process that removes the files of a killed run: started by `run`, never by hand
    #[command(hide = true)]
    Cleaner {
        /// Process number of the run
        run: u32,
    },
}

fn main() -> ExitCode {
    let outcome = match Command::parse().verb {
        Verb::Demo(words) => lab::lab(Some("demo"), &words),
        Verb::Run(options) => run::run(options),
        Verb::Ps { json, members } => ps::ps(json, members),
        Verb::Top(options) => top::top(&options),
        Verb::Show { name, about, vrf, json, members } => {
            show::show(&name, (about.as_deref(), vrf.as_deref()), json, members)
        }
        Verb::Exec(options) => exec::exec(&options),
        Verb::Cli(options) => exec::cli(&options),
        Verb::Events { name, json } => events::events(&name, json),
        Verb::Set { name, setting } => set::set(&name, &setting),
        Verb::Stop { name } => stop::stop(&name),
        Verb::Start { name } => stop::start(&name),
        Verb::Restart { name } => stop::restart(&name),
        Verb::Trace(options) => trace::trace(&options),
        Verb::Capture(options) => capture::capture(&options),
        Verb::Apply(options) => apply::apply(&options),
        Verb::Check { file, remote: Some(member), .. } => check::remote(&file, &member),
        Verb::Check { file, json, remote: None } => check::check(&file, json),
        Verb::Remote(options) => remote::remote(&options),
        Verb::Lab(words) => lab::lab(None, &words),
        Verb::Doctor { json } => doctor::doctor(json),
        Verb::DataPlane(options) => data_plane::data_plane(&options),
        Verb::Cleaner { run } => supervisor::clean_up_after(run),
    };
    command_line::end(outcome)
}
