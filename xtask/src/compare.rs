//! `cargo xtask compare`: measures the hot paths of this tree and of another commit alternately in one run, to see if a change costs
//! performance.

use std::fmt::Write as _;
use std::fs::{self, create_dir_all};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::arguments::number;
use crate::bench::machine;
use crate::ratios::{Ratio, alike, interval};
use crate::results::{Sample, parse};
use crate::step::{COMMAND, LAB, Step, output, release_lab, root, target_dir};

/// Least allowed lower end of the interval of new / old.
const LEAST: f64 = 0.98;
/// Largest allowed increase of the start-up time, in ms.
const LONGER_MS: f64 = 1.0;
/// Most pairs measured for each pair wanted, because pairs of unlike placement do not count.
const TRIES: usize = 2;

/// Hot path that can be measured quickly.
struct HotPath {
    name: &'static str,
    words: &'static [&'static str],
}

const SHORT: [&str; 4] = ["--seconds", "0.3", "--repeat", "1"];

/// The hot paths; `vhost-user` is a script of `bench/peers`.
const PATHS: [HotPath; 6] = [
    HotPath { name: "forward", words: &["forward"] },
    HotPath { name: "forward-csb", words: &["forward", "--nic", "e1000"] },
    HotPath { name: "guest-to-guest", words: &["guest-to-guest"] },
    HotPath { name: "switch", words: &["switch"] },
    HotPath { name: "boot", words: &["boot"] },
    HotPath { name: VHOST_USER, words: &[] },
];
const VHOST_USER: &str = "vhost-user";

struct Wish {
    other: String,
    pairs: usize,
    chosen: Vec<String>,
}

/// Paths of both commands, each with its lab beside it or built in.
struct Programs {
    old: String,
    new: String,
}

/// Measures the named paths, or all of them; returns true if none is slower than allowed.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let wish = wish(arguments)?;
    let programs = Programs { old: other(&wish.other)?, new: this_tree()? };
    let mut rows = String::new();
    let mut well = true;
    for path in
        PATHS.iter().filter(|path| wish.chosen.is_empty() || wish.chosen.iter().any(|name| name == path.name))
    {
        println!("\n== {}", path.name);
        let (text, holds) = if path.name == VHOST_USER {
            vhost_user(&programs, wish.pairs)?
        } else {
            by_turns(path, &programs, wish.pairs)?
        };
        println!("{text}");
        rows.push_str(&text);
        well &= holds;
    }
    let commit = output("git", &["rev-parse", "--short", "HEAD"]);
    println!("\n{}; {commit} against {}; {}", machine(), wish.other, output("date", &["-u", "+%F"]));
    println!("\n| path | pairs | like | old | new | new / old | 95 % interval | asked | holds |");
    println!("|---|---:|---:|---:|---:|---:|---|---|---|\n{rows}");
    Ok(well)
}

fn wish(arguments: &[String]) -> Result<Wish> {
    let mut wish = Wish { other: String::new(), pairs: 40, chosen: Vec::new() };
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--pairs" => wish.pairs = number(word, &mut rest)?,
            _ if word.starts_with('-') => bail!("unexpected argument `{word}`"),
            _ if wish.other.is_empty() => wish.other.clone_from(word),
            _ if PATHS.iter().any(|path| path.name == word) => wish.chosen.push(word.clone()),
            _ => bail!("no path is named `{word}`; there are: {}", PATHS.map(|path| path.name).join(", ")),
        }
    }
    ensure!(
        !wish.other.is_empty(),
        "what to compare with? `cargo xtask compare COMMIT`, or a program by its path"
    );
    Ok(wish)
}

/// Copies the programs of this tree to another folder: in the build folder, the command would call cargo at each start of its lab.
fn this_tree() -> Result<String> {
    let lab = release_lab()?;
    let built = Path::new(&lab).parent().context("a program lies in a folder")?;
    keep(built, &[LAB.1, COMMAND], &target_dir().join("compare/this-tree"))
}

/// Returns the program of a commit, built once, or the program at a path.
fn other(name: &str) -> Result<String> {
    if Path::new(name).is_file() {
        return Ok(fs::canonicalize(name)?.to_string_lossy().into_owned());
    }
    let commit = output("git", &["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")]);
    ensure!(!commit.is_empty(), "`{name}` is neither a commit nor a program");
    let folder = target_dir().join("compare");
    let program = folder.join(&commit).join(COMMAND);
    if program.is_file() {
        return Ok(program.to_string_lossy().into_owned());
    }
    create_dir_all(&folder)?;
    build(&commit, &folder)
}

/// Builds a commit in a temporary worktree; returns the path of the copied program.
fn build(commit: &str, folder: &Path) -> Result<String> {
    let tree = folder.join("tree");
    let shown = tree.to_string_lossy();
    let git = |words: &[&str]| Step::new("git").args(words).run();
    ensure!(
        git(&["worktree", "add", "--force", "--detach", &shown, commit])?,
        "git cannot check out {commit}"
    );
    // Older commits have the lab built into the command.
    let has_lab = tree.join("lab/Cargo.toml").is_file();
    let (packages, programs) =
        if has_lab { (vec![COMMAND, LAB.0], vec![LAB.1, COMMAND]) } else { (vec![COMMAND], vec![COMMAND]) };
    let target = folder.join("target");
    let cargo = |package: &&str| {
        let step = Step::new("cargo").args(["build", "--release", "--package", *package]);
        step.env("CARGO_TARGET_DIR", &target).folder(&tree).run()
    };
    let built = packages.iter().map(cargo).collect::<Result<Vec<bool>>>();
    let removed = git(&["worktree", "remove", "--force", &shown])?;
    ensure!(built?.into_iter().all(|well| well) && removed, "{commit} does not build");
    keep(&target.join("release"), &programs, &folder.join(commit))
}

/// Copies programs from the build folder to a folder of their own, the command last, as its presence means that the copy is complete.
/// Returns its path.
fn keep(built: &Path, programs: &[&str], folder: &Path) -> Result<String> {
    create_dir_all(folder)?;
    for program in programs {
        fs::copy(built.join(program), folder.join(program))
            .with_context(|| format!("cannot keep {program} in {}", folder.display()))?;
    }
    Ok(folder.join(COMMAND).to_string_lossy().into_owned())
}

/// Measures old and new alternately; the order changes from pair to pair.
fn by_turns(path: &HotPath, programs: &Programs, wanted: usize) -> Result<(String, bool)> {
    let mut pairs: Vec<(Vec<Sample>, Vec<Sample>)> = Vec::new();
    let mut like = 0;
    for round in 0..wanted * TRIES {
        let (old, new) = if round % 2 == 0 {
            let old = play(&programs.old, path.words)?;
            (old, play(&programs.new, path.words)?)
        } else {
            let new = play(&programs.new, path.words)?;
            (play(&programs.old, path.words)?, new)
        };
        like += usize::from(old.iter().zip(&new).all(|(a, b)| a.figure("c2c_ns").is_none() || alike(a, b)));
        pairs.push((old, new));
        if like >= wanted {
            break;
        }
    }
    let names: Vec<&str> = pairs
        .first()
        .map(|(old, _)| old.iter().map(|sample| sample.name.as_str()).collect())
        .unwrap_or_default();
    ensure!(!names.is_empty(), "{} prints no RESULT line", path.name);
    let (mut text, mut holds) = (String::new(), true);
    for name in names {
        let of = |samples: &'_ [Sample]| samples.iter().position(|sample| sample.name == name);
        let both: Vec<(&Sample, &Sample)> =
            pairs.iter().filter_map(|(old, new)| Some((&new[of(new)?], &old[of(old)?]))).collect();
        let (row, well) = row(name, &both)?;
        text.push_str(&row);
        holds &= well;
    }
    Ok((text, holds))
}

/// Runs an experiment with a program and returns its samples.
fn play(program: &str, words: &[&str]) -> Result<Vec<Sample>> {
    let step = Step::new(program).args(["lab", "run"]).args(words).args(SHORT);
    let (mut samples, mut said) = (Vec::new(), Vec::new());
    let well = step.quietly(&mut |line| {
        samples.extend(parse(line));
        said.push(line.to_owned());
    })?;
    ensure!(well, "`{}` failed:\n{}", step.shown(), said.join("\n"));
    Ok(samples)
}

/// Formats a row of the table; `pairs` are (new, old). Also returns false if it is slower than allowed; an undecided result counts as
/// true.
fn row(name: &str, pairs: &[(&Sample, &Sample)]) -> Result<(String, bool)> {
    let Ratio { pairs: n, like, interval: (low, median, high) } =
        Ratio::over(pairs).with_context(|| format!("{name}: too few pairs"))?;
    let unit = pairs.first().map_or("", |(new, _)| new.unit.as_str());
    let middle = |of: Vec<f64>| interval(of).map_or(f64::NAN, |(_, median, _)| median);
    let (new, old) = (
        middle(pairs.iter().map(|(new, _)| new.median).collect()),
        middle(pairs.iter().map(|(_, old)| old.median).collect()),
    );
    let (asked, verdict) = match unit {
        "ms" => {
            let longer = interval(pairs.iter().map(|(new, old)| new.median - old.median).collect());
            let (least, middle, most) = longer.context("too few pairs")?;
            let asked = format!("<= {LONGER_MS} ms longer: {middle:+.2} ({least:+.2}..{most:+.2})");
            (asked, verdict(most <= LONGER_MS, least > LONGER_MS))
        }
        _ => (format!("low end >= {LEAST}"), verdict(low >= LEAST, high < LEAST)),
    };
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "| {name} | {n} | {like} | {old:.3} | {new:.3} {unit} | {median:.3} | {low:.3}..{high:.3} | {asked} | {verdict} |"
    );
    Ok((text, verdict != "no"))
}

fn verdict(kept: bool, missed: bool) -> &'static str {
    match (kept, missed) {
        (true, _) => "yes",
        (_, true) => "no",
        _ => "open",
    }
}

/// Compares both as routers over vhost-user, alternating every quarter of a second.
fn vhost_user(programs: &Programs, wanted: usize) -> Result<(String, bool)> {
    let seconds = wanted.div_ceil(4).to_string();
    let script = root().join("bench/peers/router_over_vhost_user.sh");
    let step = Step::new(&script.to_string_lossy())
        .env("RINGROAD", &programs.new)
        .env("OTHER", &programs.old)
        .env("REPS", "1")
        .env("SECS", &seconds);
    let mut said = Vec::new();
    step.quietly(&mut |line| said.push(line.to_owned()))?;
    vhost_user_row(&said).with_context(|| format!("`{}` gave no ratio:\n{}", step.shown(), said.join("\n")))
}

/// Formats a row of the table from the script's output: medians in RESULT lines, and new / old of the slices in a RATIO line.
fn vhost_user_row(said: &[String]) -> Option<(String, bool)> {
    let samples: Vec<Sample> = said.iter().filter_map(|line| parse(line)).collect();
    let of = |end: &str| samples.iter().find(|sample| sample.name.ends_with(end)).map(|sample| sample.median);
    let (new, old) = (of("_ringroad_beside_other_60")?, of("_old_other_60")?);
    let ratio = said.iter().find_map(|line| line.strip_prefix("RATIO "))?;
    let key = |key: &str| ratio.split_whitespace().find_map(|word| word.strip_prefix(key));
    let (median, pairs) = (key("median=")?, key("n=")?);
    let (low, high) = key("ci95=")?.split_once("..")?;
    let verdict = verdict(low.parse::<f64>().ok()? >= LEAST, high.parse::<f64>().ok()? < LEAST);
    let row = format!(
        "| {VHOST_USER}/64 | {pairs} | {pairs} | {old:.3} | {new:.3} mpps | {median} | {low}..{high} | low end >= {LEAST} | {verdict} |\n"
    );
    Some((row, verdict != "no"))
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
