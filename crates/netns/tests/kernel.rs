//! Tests against a real kernel. They need root and are skipped with a message otherwise.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use netns::{Error, Namespace, unpublish};
use rustix::mount::mount_bind;

fn own() -> PathBuf {
    fs::read_link("/proc/thread-self/ns/net").expect("a namespace")
}

/// A name that neither another test of this process nor another process uses.
fn name(of: &str) -> String {
    format!("rr-{of}-{}", std::process::id())
}

#[test]
fn work_runs_inside_while_the_caller_stays_outside() {
    support::needs!(Root);
    let before = own();
    let namespace = Namespace::new().expect("a namespace");
    let inside = namespace.within(own).expect("inside");
    assert_ne!(inside, before);
    assert_eq!(namespace.clone().within(own).expect("inside"), inside);
    assert_eq!(own(), before);
    let thread = namespace.within(|| std::thread::current().name().map(str::to_owned)).expect("inside");
    assert_eq!(thread.as_deref(), Some("ringroad/netns"));
    let current = Namespace::current().expect("the own one");
    assert_eq!(current.within(own).expect("inside"), before);
    assert_ne!(current.id().expect("an id"), namespace.id().expect("an id"));
    assert_eq!(namespace.clone().id().expect("an id"), namespace.id().expect("an id"));
}

#[test]
#[should_panic(expected = "goes on outside")]
fn a_panic_inside_goes_on_outside() {
    match Namespace::new() {
        Ok(namespace) => namespace.within::<()>(|| panic!("goes on outside")).expect("inside"),
        Err(_) => panic!("goes on outside"),
    }
}

#[test]
fn sockets_that_are_opened_inside_stay_there() {
    support::needs!(Root);
    let namespace = Namespace::new().expect("a namespace");
    let kernel = namespace.netlink().expect("a socket");
    let links: Vec<netlink::Link> = kernel.all().expect("a dump");
    assert_eq!(links.iter().map(|link| link.name.as_str()).collect::<Vec<_>>(), ["lo"]);
    assert!(!links[0].up);
    let mut mirror = namespace.mirror().expect("a mirror");
    kernel.set_link("lo", &netlink::Settings::default().up(true)).expect("up");
    mirror.update().expect("an update");
    assert!(mirror.links().iter().all(|link| link.up));
}

#[test]
fn parameters_are_of_the_namespace() {
    support::needs!(Root);
    let (one, other) = (Namespace::new().expect("a namespace"), Namespace::new().expect("a namespace"));
    const KEY: &str = "net/ipv4/ip_forward";
    for (value, unlike) in [("1", "0"), ("0", "1")] {
        one.set_sysctl(KEY, value).expect("set");
        other.set_sysctl(KEY, unlike).expect("set");
        assert_eq!(one.sysctl(KEY).expect("read").as_deref(), Some(value));
        assert_eq!(other.sysctl(KEY).expect("read").as_deref(), Some(unlike));
    }
    assert_eq!(one.sysctl("net/ipv4/no_such_key").expect("read"), None);
    let refused = one.set_sysctl("net/ipv4/no_such_key", "1").expect_err("none").to_string();
    assert!(refused.contains("/proc/sys/net/ipv4/no_such_key"), "{refused}");
    assert!(one.set_sysctl(KEY, "much").is_err());
    let snmp = one.read("/proc/thread-self/net/snmp").expect("read");
    assert!(snmp.contains("Ip: 2 "), "{snmp}");
}

#[test]
fn its_sys_shows_its_interfaces() {
    support::needs!(Root);
    let namespace = Namespace::new().expect("a namespace");
    let pair = netlink::Settings::default().name("only-here");
    let kernel = namespace.netlink().expect("a socket");
    kernel.make_veth(&pair, &netlink::Settings::default().name("other"), None).expect("a pair");
    let sysfs = namespace.sysfs().expect("a sysfs");
    assert!(sysfs.exists("class/net/only-here"));
    assert_eq!(sysfs.read("class/net/only-here/mtu").expect("read"), "1500");
    sysfs.write("class/net/only-here/mtu", "1400").expect("written");
    assert_eq!(kernel.link("only-here").expect("a link").mtu, 1400);
    assert!(!Namespace::current().expect("own").sysfs().expect("a sysfs").exists("class/net/only-here"));
    assert!(sysfs.read("class/net/no-such/mtu").is_err());
}

#[test]
fn a_published_namespace_is_found_by_its_name() {
    support::needs!(Root, Program("ip"));
    let namespace = Namespace::new().expect("a namespace");
    let name = name("published");
    let published = namespace.publish(&name).expect("published");
    let again = Namespace::new().expect("a namespace").publish(&name).expect_err("taken");
    assert!(matches!(again, Error::InUse { .. }), "{again}");
    let found = Namespace::open_named(&name).expect("found");
    assert_eq!(found.id().expect("an id"), namespace.id().expect("an id"));
    let shown = Command::new("ip").args(["netns", "exec", &name, "ip", "-o", "link"]).output().expect("ip");
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    assert_eq!(String::from_utf8_lossy(&shown.stdout).lines().count(), 1);
    drop(published);
    assert!(matches!(Namespace::open_named(&name), Err(Error::Missing { .. })));
}

#[test]
fn a_name_that_was_left_is_taken_away_by_who_knows_it() {
    support::needs!(Root);
    let namespace = Namespace::new().expect("a namespace");
    let (name, id) = (name("left"), namespace.id().expect("an id"));
    namespace.publish(&name).expect("published").keep();
    drop(namespace);
    let other = Namespace::new().expect("a namespace").id().expect("an id");
    assert!(!unpublish(&name, other).expect("left alone"), "it is another one's");
    assert!(Namespace::open_named(&name).is_ok());
    assert!(unpublish(&name, id).expect("taken away"));
    assert!(!unpublish(&name, id).expect("nothing there"));
}

#[test]
fn a_file_that_waits_for_its_namespace_is_taken_away() {
    support::needs!(Root);
    let namespace = Namespace::new().expect("a namespace");
    let (name, id) = (name("half"), namespace.id().expect("an id"));
    let path = PathBuf::from("/run/netns").join(&name);
    fs::create_dir_all("/run/netns").expect("a folder");
    fs::write(&path, "").expect("a file");
    assert!(unpublish(&name, id).expect("taken away"));
    // A file with content is not such a file.
    fs::write(&path, "text").expect("a file");
    assert!(!unpublish(&name, id).expect("left alone"));
    fs::remove_file(&path).expect("removed");
    // Neither is a file onto which another namespace was bound.
    fs::write(&path, "").expect("a file");
    mount_bind("/proc/self/ns/net", &path).expect("bound");
    assert!(!unpublish(&name, id).expect("left alone"));
    rustix::mount::unmount(&path, rustix::mount::UnmountFlags::DETACH).expect("unbound");
    assert!(unpublish(&name, id).expect("taken away"));
}
