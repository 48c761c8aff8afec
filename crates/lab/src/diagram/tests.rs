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
