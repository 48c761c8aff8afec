mod benched;

use std::path::PathBuf;

use clap::{CommandFactory, Parser};
use config::{Itr, NicModel, TransmitMode, VhostThreads};
use lab::experiment::{Attachment, Direction, TrafficPattern, TxInterruptPolicy};

use super::*;
use crate::{Command, Verb, report};

fn parse(line: &str) -> Result<(Vec<String>, RunOptions), String> {
    let words = std::iter::once("lab").chain(line.split_whitespace());
    match Command::try_parse_from(words) {
        Ok(Command { verb: Verb::Run { names, options } }) => Ok((names, *options)),
        Ok(other) => Err(format!("{other:?}")),
        Err(error) => Err(error.to_string()),
    }
}

fn options(line: &str) -> Options {
    parse(line).unwrap().1.options()
}

#[test]
fn nothing_said_means_the_defaults() {
    let (names, chosen) = parse("run forward idle").unwrap();
    assert_eq!(names, ["forward", "idle"]);
    assert_eq!(format!("{:?}", chosen.options()), format!("{:?}", Options::default()));
    assert!(chosen.other(&Options::default()).unwrap().is_none());
}

#[test]
fn every_option_arrives() {
    let found = options(
        "run forward --engine kvm --nic virtio-net --attach tap --frame 1514 --flows 7 --routes 1000000 --rate 1.5M \
         --queues 2 --vcpus 3 --seconds 0.5 --repeat 9 --json out.json --svg drawings --cpus 2,3 --sandbox on --misdeed old-epoch \
         --mode send-combining --itr 100 --combine 32 --combine-above 5000 --segment 1514 --write 16384 --conversation requests \
         --sent-interrupts delayed --direction rx --work 500 --queue 64 --vhost vmm --nics 4 --family ipv6 --kernel vmlinuz \
         --initrd initrd.img",
    );
    let Options {
        engine,
        nic,
        mode,
        itr,
        combine,
        combine_above,
        sent_interrupts,
        attach,
        vhost,
        frame,
        segment,
        write,
        conversation,
        direction,
        work,
        queue,
        flows,
        routes,
        six,
        rate,
        queues,
        vcpus,
        nics,
        seconds,
        step,
        repeat,
        kernel,
        initrd,
        json,
        svg,
        cpus,
        sandbox,
        misdeed,
        rounds,
    } = found;
    assert_eq!((rounds, nics), (None, 4), "a figure's own rounds");
    assert!(six);
    assert_eq!((engine.as_str(), nic, attach), ("kvm", NicModel::VirtioNet, Attachment::Tap));
    assert_eq!(vhost, VhostThreads::Vmm);
    assert_eq!((mode, itr, combine), (TransmitMode::SendCombining, Itr::Every(100), 32));
    assert_eq!(combine_above, 5000);
    assert_eq!(sent_interrupts, Some(TxInterruptPolicy::Delayed));
    assert_eq!((segment, write, work, queue), (Some(1514), 16_384, 500, 64));
    assert_eq!((conversation, direction), (Some(TrafficPattern::Requests), Some(Direction::Rx)));
    assert_eq!((frame, flows, routes, rate), (1514, 7, 1_000_000, Some(1.5e6)));
    assert_eq!((queues, vcpus, seconds, step, repeat), (2, 3, 0.5, Some(0.5), 9));
    assert_eq!((json, cpus), (Some(PathBuf::from("out.json")), vec![2, 3]));
    assert_eq!(svg, Some(PathBuf::from("drawings")));
    assert_eq!((kernel, initrd), (Some(PathBuf::from("vmlinuz")), Some(PathBuf::from("initrd.img"))));
    assert_eq!(sandbox, engine::Confinement::On);
    assert_eq!(misdeed, Some(config::Misdeed::OldEpoch));
}

#[test]
fn a_figure_says_how_long_its_steps_are_if_nobody_else_does() {
    let figure = lab::figures::find("003/table5").unwrap().remove(0);
    let step = |words| {
        let (_, chosen) = parse(words).unwrap();
        chosen.for_a_figure(&figure, &chosen.options()).step
    };
    assert_eq!([step("run 003/table5"), step("run 003/table5 --seconds 0.5")], [Some(5.0), Some(0.5)]);
    assert_eq!(options("run isolation").step, None);
}

#[test]
fn rates_are_numbers_of_frames() {
    for (text, rate) in [("400k", 4e5), ("2M", 2e6), ("0.1G", 1e8), ("1000", 1e3), ("1e6", 1e6)] {
        assert_eq!(options(&format!("run forward --rate {text}")).rate, Some(rate));
    }
    for text in ["0", "-1", "k", "fast", "inf", "nan"] {
        assert!(parse(&format!("run forward --rate={text}")).unwrap_err().contains("400k"), "{text}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    for line in [
        "run",
        "run forward --frame 59",
        "run forward --frame 65550",
        "run forward --nic rtl8139",
        "run forward --mode fast",
        "run forward --itr 70000",
        "run forward --itr some",
        "run forward --combine 1025",
        "run guest-tx --sent-interrupts later",
        "run tcp --write 0",
        "run tcp --direction up",
        "run livelock --queue 0",
        "run forward --engine vax",
        "run forward --vcpus 0",
        "run forward --queues 17",
        "run forward --flows 0",
        "run forward --attach wire",
        "run attachments --vhost split",
        "run forward --cpus a",
        "run forward --colour red",
    ] {
        parse(line).unwrap_err();
    }
}

#[test]
fn the_other_variant_differs_in_what_it_says() {
    let (_, mut chosen) = parse("run forward --flows 5 --versus frame=1514").unwrap();
    let first = chosen.options();
    let other = chosen.other(&first).unwrap().unwrap();
    assert_eq!((first.frame, other.frame, other.flows), (64, 1514, 5));
    chosen = RunOptions::with_versus("routes=1000000 rate=1M");
    let other = chosen.other(&first).unwrap().unwrap();
    assert_eq!((other.routes, other.rate), (1_000_000, Some(1e6)));
}

#[test]
fn another_variant_that_makes_no_sense_is_one_line() {
    for (text, part) in [
        ("colour=red", "frame"),
        ("frame=1", "60"),
        ("frame", "frame"),
        ("nonsense", "frame"),
        ("engine=vax", "vax"),
    ] {
        let error = RunOptions::with_versus(text).other(&Options::default()).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains(text) && !error.contains('\n'), "{error}");
    }
    // The error names exactly the options that can be varied.
    let error = RunOptions::with_versus("colour=red").other(&Options::default()).unwrap_err().to_string();
    let names: Vec<&str> = error.rsplit_once("one of ").unwrap().1.split(' ').collect();
    let mut command = Command::command();
    let run = command.find_subcommand_mut("run").unwrap();
    let not_varied = ["seconds", "repeat", "json", "svg", "cpus", "versus", "kernel", "initrd"];
    let known: Vec<&str> = run.get_arguments().filter_map(clap::Arg::get_long).collect();
    let varied: Vec<&str> = known.into_iter().filter(|name| !not_varied.contains(name)).collect();
    assert_eq!(names, varied);
}

#[test]
fn an_unknown_experiment_is_one_line_with_those_there_are() {
    let error = named(&["forward".to_owned(), "backward".to_owned()]).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("`backward`") && !error.contains('\n'));
    assert!(LIST.iter().all(|listed| error.contains(listed.name)));
    let all: Vec<String> = LIST.iter().map(|listed| listed.name.to_owned()).collect();
    assert_eq!(named(&all).unwrap().len(), LIST.len());
    let figures = lab::figures::all().unwrap();
    assert_eq!(list().unwrap().lines().count(), LIST.len() + figures.len());
    assert!(figures.iter().all(|figure| error.contains(&figure.id)));
}

/// Returns a record as `--json` writes it.
fn record(samples: &[f64]) -> String {
    let mut outcome = Outcome { id: "wire", case: "a/64".to_owned(), unit: "mpps", measured: Vec::new() };
    for &value in samples {
        let sample = lab::experiment::Sample { value, ..Default::default() };
        outcome.measured.push(lab::experiment::Measured { sample, c2c_ns: [100.0, f64::NAN] });
    }
    let record = outcome.record(&Host::describe(), lab::report::Verdict::Holds, "");
    serde_json::to_string(&record).unwrap()
}

#[test]
fn a_record_is_an_object_with_what_could_not_be_told_as_null() {
    support::schema::check_lines("lab", &(record(&[1.0, 2.0, 3.0]) + "\n"));
    support::schema::check_lines("lab", &(record(&[]) + "\n"));
}

#[test]
fn a_report_is_a_table_of_all_records_and_names_the_machine_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results");
    let lines = [record(&[1.0, 2.0, 3.0]), String::new(), record(&[])];
    std::fs::write(&file, lines.join("\n")).unwrap();
    let table = report::table(&file).unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| wire/a/64 | mpps |")).collect();
    assert_eq!(rows.len(), 2);
    assert!(rows[0].contains("| 2.000 |") && rows[0].contains("| 3 | holds |"), "{}", rows[0]);
    assert!(rows[1].contains("| - |"));
    let columns = |line: &str| line.matches('|').count();
    assert!(table.lines().take(4).all(|line| columns(line) == columns(rows[0])));
    assert_eq!(table.matches("Linux").count(), 1);
}

#[test]
fn a_file_that_is_no_report_is_refused_with_its_name_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results");
    let error = |file| format!("{:#}", report::table(file).unwrap_err());
    assert!(error(&file).contains("results"));
    std::fs::write(&file, "").unwrap();
    assert!(error(&file).contains("no result"));
    std::fs::write(&file, format!("{}\nRESULT\n", record(&[1.0]))).unwrap();
    assert!(error(&file).contains("line 2"));
}

#[test]
fn a_comparison_without_pairs_says_so() {
    let outcome = Outcome { id: "x", case: "y".to_owned(), unit: "mpps", measured: Vec::new() };
    let line = ratio_line(&Comparison { a: outcome.clone(), b: outcome });
    assert!(line.starts_with("RATIO a=x/y b=x/y n=0"));
}
