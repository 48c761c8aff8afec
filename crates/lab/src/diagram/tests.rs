use super::*;

const KERNEL: &str = "[[router]]\nname = \"vr1\"\nengine = \"kernel\"\n\
    [[router.nic]]\nname = \"near\"\nattach = \"macvlan:near0\"\naddress = \"198.18.0.1/24\"\n\
    [[router.nic]]\nname = \"far\"\nattach = \"veth:far1\"\naddress = \"198.19.0.1/24\"\n";
const MACHINE: &str = "[[router]]\nname = \"vr1\"\nengine = \"kvm\"\n\
    [[router.nic]]\nname = \"near\"\nattach = \"macvtap:near0\"\naddress = \"198.18.0.1/24\"\n\
    [[router.nic]]\nname = \"far\"\nattach = \"macvtap:far0\"\naddress = \"198.19.0.1/24\"\n";

fn set(names: &[&str]) -> std::collections::BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Interfaces and threads of [`KERNEL`] with NICs of these names, or of [`MACHINE`] with these threads.
fn seen(nics: &[&str], threads: &[&str]) -> Seen {
    let pairs = ["near", "far"].map(|side| (format!("{side}0"), format!("{side}1")));
    Seen {
        outside: set(&["lo", "near0", "near1", "far0", "far1"]),
        inside: [("vr1".to_owned(), set(nics))].into(),
        other_ends: pairs.into(),
        threads: [("vr1".to_owned(), set(threads))].into(),
        ..Seen::default()
    }
}

fn found(text: &str, seen: &Seen) -> Result<Vec<Path>> {
    paths(&config::parse(text, "x.toml").unwrap(), seen)
}

fn names(path: &Path) -> Vec<&str> {
    path.stations.iter().map(|station| station.name.as_str()).collect()
}

#[test]
fn a_frame_for_a_container_stays_in_the_kernel() {
    let paths = found(KERNEL, &seen(&["lo", "near", "far"], &[])).unwrap();
    assert_eq!(names(&paths[0]), ["load", "near1", "near0", "near", "IP forwarding", "far", "far1", "sink"]);
    let between = &paths[0].stations[1..7];
    assert!(between.iter().all(|station| station.space == Space::Kernel));
    assert_eq!(between[2].part.as_deref(), Some("router vr1 (kernel)"));
    assert_eq!((between[0].part.as_ref(), between[2].what.as_str()), (None, "macvlan"));
}

#[test]
fn a_frame_by_virtual_functions_comes_from_another_host_by_a_port() {
    let text = "[[router]]\nname = \"vr1\"\nengine = \"lxc\"\n\
        [[router.nic]]\nname = \"near\"\nattach = \"vf:eth0\"\nfunction = 0\naddress = \"198.18.0.1/24\"\n\
        [[router.nic]]\nname = \"far\"\nattach = \"vf:eth1\"\nfunction = 3\naddress = \"198.19.0.1/24\"\n";
    let inside = [("vr1".to_owned(), set(&["lo", "near", "far"]))].into();
    let seen = Seen { outside: set(&["lo", "eth0", "eth1"]), inside, ..Seen::default() };
    let line = found(text, &seen).unwrap()[0].line();
    let wanted = "load (another host) > eth0 (port, physical function) > near (virtual function) > \
        IP forwarding (the host's kernel) > far (virtual function) > eth1 (port, physical function) > sink (another host)";
    assert_eq!(line, wanted);
    let without = Seen { outside: set(&["lo", "eth0"]), ..seen };
    assert!(found(text, &without).unwrap_err().to_string().contains("eth1"));
}

#[test]
fn a_frame_for_a_machine_goes_to_a_program_and_back() {
    let seen = seen(&[], &["vcpu0", "vhost"]);
    let paths = found(MACHINE, &seen).unwrap();
    let wanted = [
        "load",
        "near1",
        "near0",
        "macvtap on near0",
        "vhost",
        "near",
        "vcpu0",
        "far",
        "vhost",
        "macvtap on far0",
        "far0",
        "far1",
        "sink",
    ];
    assert_eq!(names(&paths[0]), wanted);
    let spaces: Vec<Space> = paths[0].stations.iter().map(|station| station.space).collect();
    assert_eq!(spaces[1..4], [Space::Kernel; 3]);
    assert_eq!(spaces[4..9], [Space::User; 5]);
}

#[test]
fn a_renamed_nic_is_drawn_under_its_new_name() {
    let seen = seen(&["uplink-7", "far"], &[]);
    let text = KERNEL.replace("name = \"near\"", "name = \"uplink-7\"");
    let drawing = svg("t", &found(&text, &seen).unwrap());
    assert!(drawing.contains(">uplink-7<") && !drawing.contains(">near<"), "{drawing}");
}

#[test]
fn what_is_not_there_is_not_drawn() {
    let missing = |text: &str, seen: &Seen| found(text, seen).unwrap_err().to_string();
    assert!(missing(KERNEL, &seen(&["far"], &[])).contains("near"));
    let mut without = seen(&["near", "far"], &[]);
    without.outside.remove("near1");
    assert!(missing(KERNEL, &without).contains("near1"));
    assert!(missing(MACHINE, &seen(&[], &["vhost"])).contains("vCPU"));
}

#[test]
fn without_a_vhost_thread_a_main_loop_fetches_frames_and_the_vcpu_sends_them() {
    let text = MACHINE.replace("engine = \"kvm\"", "engine = \"kvm\"\nvhost = \"vmm\"");
    let paths = found(&text, &seen(&[], &["main", "vcpu0"])).unwrap();
    let line = paths[0].line();
    assert!(
        line.contains("main (moves frames) > near (virtio-net) > vcpu0 (firmware) > far (virtio-net)"),
        "{line}"
    );
    assert!(line.contains("far (virtio-net) > vcpu0 (sends in its exit) > macvtap on far0"), "{line}");
    assert!(
        paths[0].stations.iter().any(|at| at.part.as_ref().is_some_and(|part| part.contains("vhost = vmm")))
    );
}

/// A group of these balancers and back ends, with one NIC of this name, and another one.
fn group_of(nic: &str, balancers: u32, back_ends: u32, more: &str) -> String {
    format!(
        "[[group]]\nname = \"vr1\"\nkind = \"multistage\"\nbalancers = {balancers}\nbackends = {back_ends}\n{more}engine = \"kvm\"\n\
         [[group.nic]]\nname = \"{nic}\"\nattach = \"tap:lab-near\"\naddress = \"198.18.0.1/24\"\n\
         [[group.nic]]\nname = \"far\"\nattach = \"tap:lab-far\"\naddress = \"198.19.0.1/24\"\n"
    )
}

/// What exists of such a group: TAPs, and threads of balancers and back ends.
fn seen_of_group(threads: &[(&str, &[&str])]) -> Seen {
    let threads = threads.iter().map(|(name, roles)| ((*name).to_owned(), set(roles)));
    let outside = set(&["lo", "lab-near", "lab-far", "br-inside"]);
    let ports = [("br-inside".to_owned(), set(&["tap0", "tap1"]))].into();
    Seen { outside, threads: threads.collect(), ports, ..Seen::default() }
}

fn stages_of(text: &str, seen: &Seen) -> Result<Graph> {
    graph(&config::parse(text, "x.toml").unwrap(), seen)
}

const THREE: [(&str, &[&str]); 4] = [
    ("vr1", &["group", "lb0", "lb1"]),
    ("vr1_0", &["vcpu0", "vhost"]),
    ("vr1_1", &["vcpu0", "vhost"]),
    ("vr1_2", &["vcpu0", "vhost"]),
];

/// Two balancers that are virtual machines, before as many back ends.
const MACHINES: [(&str, &[&str]); 5] =
    [("vr1_lb0", &["vcpu0", "vhost"]), ("vr1_lb1", &["vcpu0", "vhost"]), THREE[1], THREE[2], THREE[3]];
const VM: &str = "balancer = \"vm\"\n";

/// Names of the stations of a column.
fn stations(graph: &Graph, column: usize) -> Vec<&str> {
    graph.stages[column].stations.iter().map(|station| station.name.as_str()).collect()
}

#[test]
fn two_balancers_and_three_back_ends_are_joined_by_a_switch_for_each_nic() {
    let graph = stages_of(&group_of("near", 2, 3, VM), &seen_of_group(&MACHINES)).unwrap();
    let names = |column: usize| stations(&graph, column);
    assert_eq!((names(0), names(1)), (vec!["lab-near", "lab-far"], vec!["vr1_lb0", "vr1_lb1"]));
    assert_eq!((names(2), names(3)), (vec!["vr1_near", "vr1_far"], vec!["vr1_0", "vr1_1", "vr1_2"]));
    assert_eq!(graph.stages.len(), 4);
    assert_eq!(graph.stages[1].lines, [(0, 0), (1, 1)]);
    assert_eq!((graph.stages[2].lines.len(), graph.stages[3].lines.len()), (6, 0));
    let drawing = svg_of_stages("t", &graph);
    let lines = 2 + 2 + 6;
    assert_eq!(drawing.matches("<line ").count(), lines, "{drawing}");
    assert!(drawing.starts_with("<svg ") && drawing.ends_with("</svg>\n"), "{drawing}");
}

#[test]
fn a_balancer_in_the_switch_hands_frames_to_back_ends_itself() {
    let graph = stages_of(&group_of("near", 2, 3, ""), &seen_of_group(&THREE)).unwrap();
    let names = |column: usize| stations(&graph, column);
    assert_eq!((names(1), names(2)), (vec!["vr1/lb0", "vr1/lb1"], vec!["vr1_0", "vr1_1", "vr1_2"]));
    assert_eq!((names(3), graph.stages.len()), (names(0), 4));
    assert_eq!((graph.stages[1].lines.len(), graph.stages[2].lines.len()), (6, 6));
}

#[test]
fn a_renamed_nic_of_a_group_is_drawn_under_its_new_name() {
    let graph = stages_of(&group_of("uplink-7", 2, 3, VM), &seen_of_group(&MACHINES)).unwrap();
    let drawing = svg_of_stages("t", &graph);
    for name in [">tap of uplink-7<", ">vr1_uplink-7<", ">uplink-7, far<"] {
        assert!(drawing.contains(name), "{name}: {drawing}");
    }
    assert!(!drawing.contains(">tap of near<") && !drawing.contains(">near, far<"), "{drawing}");
}

#[test]
fn what_does_not_run_of_a_group_is_not_drawn() {
    let refused = |threads: &[(&str, &[&str])]| {
        stages_of(&group_of("near", 2, 3, ""), &seen_of_group(threads)).unwrap_err().to_string()
    };
    let mut one = THREE;
    one[0] = ("vr1", &["group", "lb0"]);
    assert!(refused(&one).contains("vr1/lb1"));
    assert!(refused(&THREE[..3]).contains("vr1_2"));
    let mut without = seen_of_group(&THREE);
    without.outside.remove("lab-far");
    let error = stages_of(&group_of("near", 2, 3, ""), &without).unwrap_err().to_string();
    assert!(error.contains("lab-far"), "{error}");
}

#[test]
fn a_balancer_that_is_a_machine_has_a_bridge_behind_it() {
    let more = |join: &str| format!("balancer = \"vm\"\ninterconnect = \"{join}:br-inside\"\n");
    let threads: [(&str, &[&str]); 2] = [("vr1_lb0", &["vcpu0", "near"]), ("vr1_0", &["vcpu0", "vhost"])];
    for (join, shown) in [("bridge", "bridge, 2 ports"), ("ovs", "Open vSwitch, 2 ports")] {
        let graph = stages_of(&group_of("near", 1, 1, &more(join)), &seen_of_group(&threads)).unwrap();
        let line = graph.line();
        assert!(line.contains("vr1_lb0 (virtual machine)") && line.contains(shown), "{line}");
        assert_eq!((graph.stages.len(), graph.stages[0].lines.clone()), (4, vec![(0, 0), (1, 0)]));
    }
    let without = Seen { ports: std::collections::BTreeMap::new(), ..seen_of_group(&threads) };
    let error = stages_of(&group_of("near", 1, 1, &more("ovs")), &without).unwrap_err().to_string();
    assert!(error.contains("br-inside"), "{error}");
}

/// Trace of a frame from `near0` to `far0`, with events of others.
const TRACE: &str = "# tracer: nop
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
    ringroad-lab-100     [000] b....   100.000001: netif_rx: dev=near0 skbaddr=00000000a1 len=60
          <idle>-0       [001] ..s1.   100.000002: napi_poll: napi poll on napi struct 00000000b1 for device (no_device) work 1 budget 64
          <idle>-0       [001] ..s1.   100.000003: netif_receive_skb: dev=near0 skbaddr=00000000a1 len=46
          <idle>-0       [001] ..s1.   100.000003: netif_receive_skb: dev=eth0 skbaddr=00000000a9 len=46
     l1f20a/vhost-71     [001] .....   100.000004: sys_exit: NR 19 = -11
     l1f20a/vhost-71     [001] .....   100.000005: sys_exit: NR 19 = 72
     l1f20a/vhost-71     [001] .....   100.000006: sys_exit: NR 271 = 1
     l1f20a/vhost-71     [001] d....   100.000007: kvm_msi_set_irq: dst 0 vec 34 (Fixed|physical|edge)
     l1f20a/vhost-71     [001] .....   100.000007: sys_exit: NR 1 = 8
            sshd-9       [000] .....   100.000008: sys_exit: NR 1 = 40
     l1f20a/vcpu0-72     [001] .....   100.000009: kvm_fast_mmio: fast mmio at gpa 0xfe003000
     l1f20a/vhost-71     [001] .....   100.000010: sys_enter: NR 1 (b, 7f0c11ff, 8, 0, 7f0c, 1)
     l1f20a/vhost-71     [001] .....   100.000010: sys_enter: NR 20 (9, 7f0c1100, 2, 0, 7f0c, 1)
     l1f20a/vhost-71     [001] b....   100.000011: net_dev_queue: dev=far0 skbaddr=00000000a2 len=60
     l1f20a/vhost-71     [001] b....   100.000012: net_dev_queue: dev=far0 skbaddr=00000000a2 len=60
     l1f20a/vhost-71     [001] .....   100.000013: sys_exit: NR 20 = 72
";

#[test]
fn functions_are_those_of_the_frame_in_the_order_of_the_trace() {
    let threads = ["vhost", "vcpu0"].map(|role| (format!("l1f20a/{role}"), role.to_owned())).into();
    let stations = functions(TRACE, &set(&["near0", "far0"]), &threads);
    let path = Path { router: "vr1".to_owned(), stations };
    assert_eq!(
        path.line(),
        "netif_rx (near0) > netif_receive_skb (near0) > vhost (reads) > kvm_msi_set_irq (vhost) > kvm_fast_mmio (vcpu0) > \
         vhost (writes) > net_dev_queue (far0)"
    );
    assert!(functions(TRACE, &set(&["eth1"]), &std::collections::BTreeMap::new()).is_empty());
    // A renamed interface is there under its new name.
    let renamed = TRACE.replace("near0", "uplink-7");
    let stations = functions(&renamed, &set(&["uplink-7", "far0"]), &threads);
    assert!(svg("t", &[Path { router: "vr1".to_owned(), stations }]).contains(">uplink-7<"));
}

#[test]
fn a_drawing_is_well_formed_and_has_a_row_for_each_router() {
    let paths = found(KERNEL, &seen(&["near", "far"], &[])).unwrap();
    let both = [paths[0].clone(), Path { router: "vr<2>".to_owned(), ..paths[0].clone() }];
    let drawing = svg("in & out", &both);
    assert!(drawing.starts_with("<svg ") && drawing.ends_with("</svg>\n"), "{drawing}");
    assert!(drawing.contains("in &amp; out"), "{drawing}");
    assert_eq!(drawing.matches(">IP forwarding<").count(), 2);
    for tag in ["text", "svg"] {
        let (open, close) = (format!("<{tag} "), format!("</{tag}>"));
        assert_eq!(drawing.matches(&open).count(), drawing.matches(&close).count(), "{tag}: {drawing}");
    }
    assert!(
        paths[0].line().contains("near0 (interface) > near (macvlan) > IP forwarding"),
        "{}",
        paths[0].line()
    );
}

#[test]
fn interfaces_are_told_by_the_kernels_table() {
    let table = "Inter-| Receive\n face |bytes\n    lo: 0 0\nnear-1-0: 12 3\n";
    assert_eq!(interfaces(table), set(&["lo", "near-1-0"]));
    for name in names_of_figures() {
        assert!(is_known(&name), "{name}");
    }
}

/// Names of the diagrams in the figure files.
fn names_of_figures() -> Vec<String> {
    crate::figures::all().unwrap().into_iter().filter_map(|figure| figure.draws).collect()
}
