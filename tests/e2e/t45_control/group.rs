//! A group between a host and a plain router: it has one FRR, all its members forward by its routes, and outside it is one router.

use std::net::{IpAddr, SocketAddr};

use support::Flow;

use super::*;

/// Flows that are spread over members: with so many none of three members is without any, but once in millions of runs.
const FLOWS: u16 = 40;
/// Datagrams a second of each.
const RATE: u32 = 50;
const PORT: u16 = 7145;
/// Time after which further flows are started, if a member forwards none.
const ROUND: Duration = Duration::from_secs(10);

/// What kind of group it is: its lines in the file, and the key that says how many members it has.
pub(super) struct Kind {
    lines: &'static str,
    members: &'static str,
}

pub(super) const PARALLEL: Kind = Kind { lines: "kind = \"parallel\"\nmembers = 2", members: "members" };
pub(super) const MULTISTAGE: Kind =
    Kind { lines: "kind = \"multistage\"\nbackends = 2", members: "backends" };

pub(super) fn file(name: &str, kind: &Kind, engine: &str, frr: &str) -> String {
    let nic = |nic: &str, address: &str| {
        format!(
            "[[group.nic]]\nname = \"{nic}\"\nattach = \"tap:{name}{nic}\"\naddress = \"{address}\"\nqueue_len = 4096\n"
        )
    };
    format!(
        "[[group]]\nname = \"{name}\"\nengine = \"{engine}\"\n{}\n\
         control = {{ frr = \"{frr}\" }}\n",
        kind.lines
    ) + &nic("lan", "192.0.2.1/24")
        + &nic("out", "10.0.23.1/30")
}

fn set(name: &str, setting: &str) {
    let done = run(Command::new(RINGROAD).args(["set", name, setting]), PATIENCE).expect("it ends");
    assert!(done.status.success(), "{name}: {}", done.stderr);
}

/// Waits until so many members serve.
fn all_serve(stage: &Stage, members: usize) {
    wait_for("members that serve", || {
        let status = stage.client().ok()?.ask(&api::Request::Ps {}).ok()?;
        let api::Answer::Ps(status) = status else { return None };
        let states = status.routers.iter().filter_map(|router| router.member.as_deref());
        (states.filter(|state| state.starts_with("serving")).count() == members).then_some(())
    });
}

/// Starts flows until so many members forward what they carry: a flow stays with its member, and a member that answered its probes
/// late gets no new ones for a while.
fn spread(stage: &Stage, name: &str, members: usize, flows: &mut Vec<Flow>, start: impl Fn(u16) -> Flow) {
    let passed =
        |counters: &Counters, number: usize| counters.get(&format!("{name}_{number}.out.group.passed"));
    let counted = || stage.wait_for_counters(|_| true).expect("counters");
    let before = counted();
    wait_for("all members forward", || {
        let first = flows.len() as u16;
        flows.extend((first..first + FLOWS).map(&start));
        let end = Instant::now() + ROUND;
        let all =
            |now: &Counters| (0..members).all(|number| passed(now, number) > passed(&before, number) + 100);
        while Instant::now() < end {
            if all(&counted()) {
                return Some(());
            }
            sleep(LOOK);
        }
        None
    });
}

fn one_frr_speaks_for_all_members(name: &str, kind: &Kind, engine: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("frr.conf");
    fs::write(&path, ospf(1, &["out"], &["lan"])).expect("written");
    let text = file(name, kind, engine, &path.display().to_string());
    let mut stage = Stage::start(RINGROAD, &text).expect("it starts");
    let [lan, out] = ["lan", "out"].map(|nic| format!("{name}{nic}"));
    let near = stage.host(&lan, "192.0.2.2/24", "192.0.2.1").expect("a host");
    let behind = stage.host(&out, "10.0.23.2/30", "10.0.23.1").expect("a host");
    // It has to learn its routes.
    behind.ip(&["route", "delete", "default"]).expect("deleted");
    behind.ip(&["address", "add", &format!("{FAR}/32"), "dev", "lo"]).expect("added");
    let plain = Plain::start(&behind, &ospf(3, &[&out], &["lo"]));
    let mut client = wait_for("the run", || stage.client().ok());
    let found = wait_for_route(&mut client, name, (FAR, "ospf"));
    let [hop] = found.hops.as_slice() else { panic!("{found:?}") };
    assert_eq!((hop.via, hop.link.as_str()), (Some([10, 0, 23, 2].into()), "out"));
    wait_for("the plain router's way back", || {
        let routes = behind.ip(&["route", "show"]).expect("routes");
        routes.contains("192.0.2.0/24").then_some(())
    });
    wait_for_answer(&near, FAR);
    ping(near.command("busybox"), 5, &[FAR]).expect("answered");
    each_question_has_one_answer(|program| near.command(program), (&lan, "192.0.2.1"));
    // One neighbour of one router, whoever of its members is asked.
    for asked in [name.to_owned(), format!("{name}_1")] {
        wait_for("an adjacency", || {
            let all = adjacencies(&mut client, &asked);
            (all.len() == 1 && all.iter().all(|one| one.up)).then_some(())
        });
    }
    let far: IpAddr = FAR.parse().expect("an address");
    let start =
        |number: u16| Flow::start(&near, &behind, SocketAddr::new(far, PORT + number), RATE).expect("a flow");
    let mut flows = Vec::new();
    spread(&stage, name, 2, &mut flows, start);
    // A member that comes reads what the others read. A balancer moves no flow that is under way while it can move other
    // places, so new flows are what a third member gets.
    set(name, &format!("{}=3", kind.members));
    all_serve(&stage, 3);
    spread(&stage, name, 3, &mut flows, start);
    flows.iter().for_each(|flow| assert!(flow.resumes(PATIENCE).is_some(), "{:?}", flow.so_far()));
    drop(flows);
    assert_eq!(forwarded_by_kernel(name), 0);
    let counters = stage.wait_for_counters(|_| true).expect("counters");
    assert!(counters.get(&format!("{name}.out.punt.routing")) > 0, "OSPF goes to the control plane");
    assert!(counters.get(&format!("{name}.out.shadow.read.frames")) > 0, "and comes from there");
    sorted_adds_up(&counters, &format!("{name}.out"));
    // Here it has no neighbour, and the reports of a host that joins groups of multicast may come before the NIC is served.
    sorted_for_control(&counters, &format!("{name}.lan"));
    // Its routes are gone with its neighbour.
    drop(plain);
    wait_for("the withdrawal", || route(&mut client, name, FAR).is_none().then_some(()));
    stage.finish_troubled(vec![near, behind]).expect("nothing is left");
}

mod all {
    use super::*;

    #[test]
    fn members_in_parallel_are_one_router_for_ospf() {
        needs!(Root, Tun, Program("ip"), Program("busybox"), Program("vtysh"));
        one_frr_speaks_for_all_members("t45p", &PARALLEL, "process");
    }

    #[test]
    fn back_ends_are_one_router_for_ospf() {
        needs!(Root, Tun, Program("ip"), Program("busybox"), Program("vtysh"));
        one_frr_speaks_for_all_members("t45m", &MULTISTAGE, "process");
    }

    #[test]
    fn members_in_processes_of_their_own_learn_the_same() {
        needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"), Program("vtysh"));
        one_frr_speaks_for_all_members("t45q", &PARALLEL, "kvm");
    }
}
