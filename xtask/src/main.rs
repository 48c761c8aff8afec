//! Developer tasks: `cargo xtask setup | check | test | gate | box | bench | compare | measured | lines | fuzz | sanitize | soak | attacks | deb`.
#![forbid(unsafe_code)]

mod arguments;
mod attacks;
mod autogroup;
mod bench;
mod check;
mod compare;
mod deb;
mod deny;
mod forbidden_deps;
mod fuzz;
mod gate;
mod inbox;
mod lines;
mod measured;
mod ratios;
mod results;
mod sanitize;
mod setup;
mod soak;
mod sources;
mod step;
mod tally;
mod test;
mod workers;

use std::process::ExitCode;

use autogroup::AutogroupsOff;

/// Verbs under which routers, machines and loads run.
const RUN_PROGRAMS: [&str; 8] = ["test", "gate", "box", "bench", "compare", "measured", "soak", "attacks"];

const HELP: &str = "\
cargo xtask setup                               installs the packages and the tools that all of this needs
cargo xtask check                               format, lints, docs, licences, house rules
cargo xtask test [--all | --long] [--stressed] [NAME...]
                                                the tests of the commit tier, of all tiers but the long one, or of the long one;
                                                the last line is `N passed, M failed, K skipped`
cargo xtask gate [--quiet N] [--stressed N]     runs the commit tier until so many runs of this code were green, and counts them
cargo xtask box [--shell] [--binary FILE] [--with FILE]... [NAME...]
                                                tests in a host in a box: Debian's kernel, emulated, with KVM and
                                                vhost-net; or a shell in it; FILE is a further program for it
cargo xtask bench [--rounds N] [--seconds S] [--no-peers] [NAME...]
                                                experiments and peers in turn, then a Markdown table
cargo xtask compare COMMIT [--pairs N] [NAME...]
                                                the hot paths of this tree and of a commit (or a program, by its path) by turns, in
                                                N pairs (default 40): new / old with its interval
cargo xtask measured [--rounds N] [bench | attacks | FIGURE...]
                                                plays these (a bench in 10 rounds, figures as often as they say, each attack for 60 s) and keeps them, then
                                                writes docs/measured.md, docs/papers.md, the figures of the README and the table of SECURITY.md from
                                                what is kept
cargo xtask lines [COMMIT]                      lines of Rust in the product and in tests, by crate, of this tree or of a commit
cargo xtask fuzz [--seconds N] [TARGET...]      each fuzz target for N seconds (default 60), one on each CPU at a time
cargo xtask sanitize [CRATE...]                 the tests of ring, nic, nic-port, vhost-user under AddressSanitizer (nightly)
cargo xtask soak [--minutes N] [--rounds N]     traffic beside a hostile router (default 30 minutes), then N times SIGKILL
                                                (default 300); the last line sums up
cargo xtask soak --group [--multistage] [--seconds N]
                                                a group of two, with --multistage behind two balancers, on CPUs that real-time
                                                threads take away again and again (default an hour); fails if one was suspected
cargo xtask attacks [--seconds N] [--binary FILE] [NAME...]
                                                each attack for N seconds (default 60) beside a neighbour that forwards 1 Mpps,
                                                what it costs whom; the last line sums up
cargo xtask deb [--binary FILE] [--output FOLDER]
                                                the Debian package of this commit, or of a command that was built and the lab beside it";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let verb = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    let _autogroups = RUN_PROGRAMS.contains(&verb.as_str()).then(AutogroupsOff::here).flatten();
    let done = match verb.as_str() {
        "check" => no_arguments(&rest).and_then(|()| check::run()),
        "setup" => no_arguments(&rest).and_then(|()| setup::run()),
        "test" => test::run(&rest),
        "gate" => gate::run(&rest),
        "spin" => test::spin(),
        "box" => inbox::run(&rest),
        "bench" => bench::run(&rest),
        "compare" => compare::run(&rest),
        "measured" => measured::run(&rest),
        "lines" => lines::run(&rest),
        "fuzz" => fuzz::run(&rest),
        "sanitize" => sanitize::run(&rest),
        "soak" => soak::run(&rest),
        "attacks" => attacks::run(&rest),
        "deb" => deb::run(&rest),
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        // The verb has printed what is wrong; its last line stays the last.
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask {verb}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn no_arguments(rest: &[String]) -> anyhow::Result<()> {
    match rest.first() {
        None => Ok(()),
        Some(first) => anyhow::bail!("unexpected argument `{first}`\n{HELP}"),
    }
}
