//! Objective: an experiment of the lab ends in one RESULT line and one JSON object, two variants in a ratio, a report in a table;
//! an experiment that cannot run gives one clear line. The lab is a program of its own, which is not part of the command, and
//! starts only from the command's folder, which no other user may be able to write to.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Output};

const BINARY: &str = env!("CARGO_BIN_EXE_ringroad");
/// Program of the lab, in the same folder as the command.
const LAB: &str = concat!(env!("CARGO_BIN_EXE_ringroad"), "-lab");

fn ringroad(arguments: &[&str]) -> Output {
    Command::new(BINARY).args(arguments).output().expect("the command starts")
}

fn stdout(arguments: &[&str]) -> String {
    let output = ringroad(arguments);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the command, which must fail; returns the single line that it prints.
fn failure(arguments: &[&str]) -> String {
    failed(&ringroad(arguments), arguments)
}

fn failed(output: &Output, arguments: &[&str]) -> String {
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    assert!(output.stdout.is_empty());
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

const SHORT: [&str; 4] = ["--seconds", "0.02", "--repeat", "1"];

#[test]
fn the_list_names_what_can_be_run() {
    let list = stdout(&["lab", "list"]);
    let experiments =
        ["forward", "switch", "guest-to-guest", "guest-tx", "guest-rx", "round-trip", "tcp", "livelock"];
    let further =
        ["boot", "idle", "container-load", "compare", "001/fig1a", "001/fig3", "003/fig1", "004/tx"];
    for name in experiments.into_iter().chain(further) {
        assert!(
            list.lines().any(|line| line.split_whitespace().next() == Some(name)),
            "{name} is not in\n{list}"
        );
    }
}

/// Text that only the lab contains: the descriptions of its experiments.
const EXPERIMENT: &str = "generator -> router -> sink, without the kernel";

fn holds(program: &str, text: &str) -> bool {
    let octets = fs::read(program).unwrap_or_else(|error| panic!("{program}: {error}"));
    octets.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn the_command_does_not_carry_the_lab() {
    assert!(stdout(&["lab", "list"]).contains(EXPERIMENT));
    assert!(holds(LAB, EXPERIMENT));
    assert!(!holds(BINARY, EXPERIMENT));
}

#[test]
fn words_and_exit_code_are_those_of_the_lab() {
    let help = stdout(&["lab", "--help"]);
    for verb in ["list", "run", "flood", "table", "report", "demo"] {
        let begins = |line: &str| line.split_whitespace().next() == Some(verb);
        assert!(help.lines().any(begins), "{verb} is not in\n{help}");
    }
    assert!(stdout(&["lab", "run", "--help"]).contains("Usage: ringroad lab run "), "it is typed so");
    assert!(stdout(&["demo", "--help"]).contains("Usage: ringroad demo "), "it is typed so");
    let refused = ringroad(&["lab", "run", "switch", "--colour", "red"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

#[test]
fn a_lab_is_started_from_the_folder_of_the_command_if_nobody_else_may_have_written_it() {
    stdout(&["lab", "list"]);
    let folder = tempfile::tempdir().unwrap();
    let (command, lab) = (folder.path().join("ringroad"), folder.path().join("ringroad-lab"));
    fs::copy(BINARY, &command).unwrap();
    let list = || Command::new(&command).args(["lab", "list"]).output().expect("the command starts");
    let name = lab.display().to_string();
    // It does not start a lab from another place.
    let line = failed(&list(), &["without a lab"]);
    assert!(line.starts_with("ringroad: ") && line.contains(&name) && line.contains("cargo build"), "{line}");
    fs::copy(LAB, &lab).unwrap();
    let listed = list();
    assert!(listed.status.success() && listed.stderr.is_empty(), "{listed:?}");
    assert_eq!(String::from_utf8(listed.stdout).unwrap(), stdout(&["lab", "list"]));
    fs::set_permissions(&lab, fs::Permissions::from_mode(0o777)).unwrap();
    let line = failed(&list(), &["a lab that anybody may write"]);
    assert!(line.contains(&name) && line.contains("is not started"), "{line}");
    fs::remove_file(&lab).unwrap();
    symlink(LAB, &lab).unwrap();
    let line = failed(&list(), &["a link to a lab"]);
    assert!(line.contains(&name) && line.contains("is not started"), "{line}");
}

#[test]
fn what_cannot_be_run_is_one_line() {
    let line = failure(&["lab", "run", "switch", "backward"]);
    assert!(line.contains("`backward`") && line.contains("forward"), "{line}");
    let line = failure(&["lab", "run", "switch", "--versus", "colour=red"]);
    assert!(line.contains("colour=red"), "{line}");
    let line = failure(&["lab", "run", "switch", "--seconds", "0"]);
    assert!(line.contains("seconds"), "{line}");
    let line = failure(&["lab", "run", "switch", "--cpus", "4000"]);
    assert!(line.contains("4000"), "{line}");
    let line = failure(&["lab", "run", "001/fig9"]);
    assert!(line.contains("`001/fig9`") && line.contains("001/fig1a"), "{line}");
    let line = failure(&["lab", "run", "001/fig2a", "--versus", "frame=1514"]);
    assert!(line.contains("--versus"), "{line}");
    let line = failure(&["lab", "run", "guest-tx", "--segment", "1514"]);
    assert!(line.contains("--frame"), "{line}");
    let line = failure(&["lab", "report", "no/such/file"]);
    assert!(line.contains("no/such/file"), "{line}");
}

#[test]
fn two_variants_end_in_their_ratio() {
    let text = stdout(&[&["lab", "run", "generator", "--versus", "frame=1514"], &SHORT[..]].concat());
    let first_words: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(first_words, ["RESULT", "RESULT", "RATIO"], "{text}");
}

#[test]
fn a_router_forwards_and_the_line_says_how_well() {
    support::needs!(Kvm);
    // Longer than a busy host keeps a virtual CPU waiting: without any packet, there are no exits per packet.
    let text = stdout(&["lab", "run", "forward", "--seconds", "2", "--repeat", "1"]);
    let line = text
        .lines()
        .find(|line| line.starts_with("RESULT name=forward/kvm/virtio-net/64 unit=mpps "))
        .unwrap();
    for key in ["median=", "min=", "max=", "n=", "lost=", "exits_per_packet=", "c2c_ns=", "generator_mpps="] {
        assert!(line.contains(&format!(" {key}")), "{key} is not in {line}");
    }
}

mod all {
    use super::*;

    #[test]
    fn results_are_told_in_lines_in_json_and_in_a_table() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("results.json");
        let file = file.to_str().unwrap();
        let text = stdout(&[&["lab", "run", "switch", "--json", file], &SHORT[..]].concat());
        let results: Vec<&str> =
            text.lines().filter(|line| line.starts_with("RESULT name=switch/")).collect();
        assert_eq!(results.len(), 3, "{text}");
        let written = std::fs::read_to_string(file).unwrap();
        assert_eq!(written.lines().count(), 3);
        for line in written.lines() {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!((&record["id"], &record["unit"]), (&"switch".into(), &"mpps".into()));
            assert_eq!(record["samples"].as_array().unwrap().len(), 1);
        }
        let table = stdout(&["lab", "report", file]);
        assert_eq!(table.lines().filter(|line| line.starts_with("| switch/")).count(), 3, "{table}");
    }

    #[test]
    fn a_boot_is_measured_from_the_start_of_the_command() {
        support::needs!(Kvm);
        let text = stdout(&[&["lab", "run", "boot"], &SHORT[..]].concat());
        for case in ["in-process", "command"] {
            let start = format!("RESULT name=boot/kvm/virtio-net/{case} unit=ms median=");
            let rest = text.lines().find_map(|line| line.strip_prefix(&start)).expect(case);
            let median: f64 = rest.split(' ').next().unwrap().parse().unwrap();
            assert!(median > 0.0 && median < 10_000.0);
        }
    }

    #[test]
    fn a_figure_ends_in_a_table_with_the_papers_cells_and_a_verdict_for_each_shape() {
        support::needs!(Kvm, Root);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("figure.json");
        let file = file.to_str().unwrap();
        let text = stdout(&["lab", "run", "001/fig1e", "--seconds", "0.02", "--repeat", "6", "--json", file]);
        assert_eq!(text.lines().filter(|line| line.starts_with("RESULT name=guest-")).count(), 8, "{text}");
        let row = text.lines().find(|line| line.starts_with("| TX GG | ")).unwrap();
        assert!(
            row.ends_with(" |") && row.contains("(6300)") && row.contains("(31530)") && !row.contains(" - ("),
            "{row}"
        );
        assert_eq!(text.lines().filter(|line| line.starts_with("SHAPE 001/fig1e ")).count(), 2, "{text}");
        let written = std::fs::read_to_string(file).unwrap();
        let records: Vec<serde_json::Value> =
            written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(records.len(), 12 + 2);
        let shapes = records.iter().filter(|record| record["case"].as_str().unwrap().starts_with("shape/"));
        for shape in shapes {
            assert!(["holds", "fails", "not-run"].contains(&shape["verdict"].as_str().unwrap()), "{shape}");
            assert!(shape["why"].as_str().unwrap().contains("asked"), "{shape}");
        }
        let cell = records.iter().find(|record| record["case"] == "TX-GH/min-size").unwrap();
        assert_eq!((&cell["more"]["published"], &cell["unit"]), (&7400.0.into(), &"Kpps".into()));
        stdout(&["lab", "report", file]);
    }

    #[test]
    fn a_figure_that_is_not_ours_to_play_shows_what_was_published() {
        let text = stdout(&["lab", "run", "001/fig2", "001/fig3"]);
        assert!(text.contains("| VMware TX GG | - (65) | - (64) | - (748) |"), "{text}");
        assert!(text.contains("NOT-RUN 001/fig2b 2 cpu, SC | UDP8: "), "{text}");
        assert!(text.contains("001/fig3") && text.contains("the paper announces this figure"), "{text}");
    }

    #[test]
    fn a_router_that_is_a_namespace_is_drawn_as_it_runs() {
        support::needs!(Root, Program("ip"), Program("unshare"));
        let folder = tempfile::tempdir().unwrap();
        let text = stdout(&["lab", "run", "003/fig3", "--svg", folder.path().to_str().unwrap()]);
        let way = "load (packet socket) > near1 (interface) > near (veth) > IP forwarding (the host's kernel) > far (veth) > far1";
        assert!(text.contains(way), "{text}");
        let drawing = fs::read_to_string(folder.path().join("003-fig3.svg")).unwrap();
        assert!(drawing.contains(">near1<") && drawing.contains("router vr1 (kernel)"), "{drawing}");
    }

    #[test]
    fn a_group_is_drawn_with_the_balancers_and_back_ends_that_run() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("unshare"));
        let folder = tempfile::tempdir().unwrap();
        let text = stdout(&["lab", "run", "000/fig16", "--svg", folder.path().to_str().unwrap()]);
        let stages = [
            "links: lab-near (tap of near), lab-far (tap of far) > balancers: vr1_lb0 (virtual machine), vr1_lb1 (virtual machine)",
            " > interconnection: vr1_near (switch), vr1_far (switch) > back ends: vr1_0 (near, far), vr1_1 (near, far), ",
            "vr1_2 (near, far)",
        ];
        assert!(text.contains(&stages.concat()), "{text}");
        let drawing = fs::read_to_string(folder.path().join("000-fig16.svg")).unwrap();
        assert!(drawing.contains(">vr1_lb1<") && drawing.contains(">vr1_2<"), "{drawing}");
    }

    #[test]
    fn a_group_is_drawn_with_the_bridge_that_joins_its_stages() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("unshare"));
        let folder = tempfile::tempdir().unwrap();
        let text = stdout(&["lab", "run", "000/fig17-bridge", "--svg", folder.path().to_str().unwrap()]);
        assert!(text.contains(" > balancers: vr1_lb0 (virtual machine) > interconnection: "), "{text}");
        // Each of the two machines has a TAP in it for each of its NICs.
        assert!(text.contains(" (bridge, 4 ports) > back ends: vr1_0 (near, far)"), "{text}");
        let drawing = fs::read_to_string(folder.path().join("000-fig17-bridge.svg")).unwrap();
        assert!(drawing.contains(">vr1_lb0<") && drawing.contains(">vr1_0<"), "{drawing}");
    }

    #[test]
    fn both_ways_of_a_frame_through_a_machine_are_drawn() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("unshare"));
        let folder = tempfile::tempdir().unwrap();
        let text = stdout(&["lab", "run", "000/fig1-paths", "--svg", folder.path().to_str().unwrap()]);
        assert!(text.contains("far (virtio-net) > vcpu0 (sends in its exit) > lab-far (TAP)"), "{text}");
        assert!(text.contains("far (virtio-net) > vhost (moves frames) > lab-far (TAP)"), "{text}");
        let drawing = fs::read_to_string(folder.path().join("000-fig1-paths.svg")).unwrap();
        assert!(drawing.contains("vhost = vmm") && drawing.contains("vhost = shared"), "{drawing}");
    }

    #[test]
    fn engine_kernel_is_compared_with_what_is_set_up_by_hand() {
        support::needs!(Root, Program("ip"), Program("unshare"));
        let text = stdout(&["lab", "run", "container-by-hand", "--seconds", "0.05", "--repeat", "1"]);
        for link in ["veth", "macvlan"] {
            let pair =
                format!("RATIO a=container-by-hand/64/kernel/{link} b=container-by-hand/64/by-hand/{link} ");
            assert!(text.lines().any(|line| line.starts_with(&pair)), "{pair} is not in {text}");
        }
    }

    #[test]
    fn eight_routers_on_a_core_are_compared_with_one() {
        support::needs!(Root, Tun, Kvm, Program("ip"), Program("unshare"));
        let text = stdout(&["lab", "run", "container-eight", "--seconds", "0.05", "--repeat", "1"]);
        for stand in ["kernel/veth", "kernel/macvlan", "kvm/tap", "kvm/macvtap-for-vf"] {
            let of = |routers: u32| format!("container-eight/64/{stand}/{routers}-on-a-core");
            let pair = format!("RATIO a={} b={} ", of(8), of(1));
            assert!(text.lines().any(|line| line.starts_with(&pair)), "{pair} is not in {text}");
        }
    }

    mod alone {
        use super::*;

        /// Tracepoints tell of all namespaces, so that nothing else may pass interfaces of these names meanwhile.
        #[test]
        fn the_functions_that_a_frame_passes_are_told_by_the_hosts_tracepoints() {
            support::needs!(Root, Kvm, Tun, Program("ip"), Program("unshare"));
            let kernel = fs::read_to_string("/proc/filesystems").unwrap();
            if !kernel.lines().any(|line| line.ends_with("\ttracefs")) {
                println!("SKIPPED: this kernel has no tracefs");
                return;
            }
            let text = stdout(&["lab", "run", "000/A.20"]);
            let line =
                text.lines().find(|line| line.starts_with("* ") && line.contains(" > ")).unwrap_or(&text);
            let places = ["(near0)", "vhost (reads)", "vhost (writes)", "(far0)", "(far1)"];
            let found: Vec<Option<usize>> = places.iter().map(|place| line.find(place)).collect();
            assert!(found.iter().all(Option::is_some) && found.is_sorted(), "{text}");
        }
    }
}
