//! Tests with Debian's LXC (`apt-get install lxc`), where a test program may start containers.

mod all {
    mod alone {
        use std::fs;
        use std::path::{Path, PathBuf};
        use std::process::{Command, Output};
        use std::time::{Duration, Instant};

        use lxc::{
            Container, Link, Nic, OrphanedContainer, Programs, Root, Running, StopOutcome, TimeLimits,
            name_for,
        };
        use netlink::MacvtapMode;
        use support::{Namespace, Process};
        use tempfile::TempDir;

        /// Longer than any operation takes.
        const LONG: Duration = Duration::from_secs(60);

        /// A host with an interface for a macvlan, one to be moved, and a directory for containers.
        struct World {
            host: Namespace,
            folder: TempDir,
            container: Container,
        }

        impl World {
            fn new(name: &str) -> Self {
                let host = Namespace::add(name).expect("a namespace");
                for (near, far) in [("near", "far"), ("moved", "other")] {
                    host.ip(&["link", "add", near, "type", "veth", "peer", "name", far]).expect("a pair");
                }
                let nic = |name: &str, link: Link| Nic { name: name.to_owned(), link, mac: None, mtu: None };
                let nics = vec![
                    Nic {
                        mac: Some([2, 0, 0, 0, 0, 7]),
                        ..nic("lan", Link::Veth { peer: "rr-out".to_owned() })
                    },
                    nic("wan", Link::Macvlan { parent: "near".to_owned(), mode: MacvtapMode::Bridge }),
                    nic("card", Link::Phys { link: "moved".to_owned() }),
                ];
                let name = name_for(host.name());
                let container = Container { name, host_name: "edge".to_owned(), root: Root::Programs, nics };
                Self { host, folder: tempfile::tempdir().expect("a folder"), container }
            }

            fn left(&self) -> OrphanedContainer {
                OrphanedContainer::new(&self.container.name, self.folder.path())
            }

            /// Starts the container in the host's namespace, where LXC's programs also look for it.
            fn start(&self) -> Running {
                let patience = TimeLimits { start: LONG, ..TimeLimits::default() };
                let start =
                    || Running::start(&Programs::default(), &self.container, self.folder.path(), patience);
                self.host.inside(start).expect("the namespace").expect("it runs")
            }

            /// Runs a program inside the container.
            fn attach(&self, words: &[&str]) -> Output {
                let mut command = self.host.command_with_groups("lxc-attach");
                command
                    .arg("-P")
                    .arg(self.folder.path())
                    .args(["-n", &self.container.name, "--"])
                    .args(words);
                command.output().expect("a program of LXC")
            }

            /// Returns true if neither a directory nor a control group of it is left.
            fn is_gone(&self) -> bool {
                let name = &self.container.name;
                let groups = ["payload", "monitor"].map(|kind| format!("lxc.{kind}.{name}"));
                let mut places: Vec<PathBuf> = vec![PathBuf::from("/sys/fs/cgroup")];
                let below = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().filter_map(Result::ok);
                places.extend(below.map(|entry| entry.path()));
                let has = |place: &Path| groups.iter().any(|group| place.join(group).exists());
                !self.left().folder().exists() && !places.iter().any(|place| has(place))
            }
        }

        fn interfaces_of(pid: u32) -> String {
            fs::read_to_string(format!("/proc/{pid}/net/dev")).expect("it runs")
        }

        #[test]
        fn a_container_runs_with_its_interfaces_and_goes_without_a_trace() {
            support::needs!(
                Root,
                Program("ip"),
                Program("nsenter"),
                Program("lxc-start"),
                Program("lxc-attach")
            );
            let world = World::new("lxc-lives");
            let running = world.start();
            let interfaces = interfaces_of(running.pid());
            for name in ["lo:", "lan:", "wan:", "card:"] {
                assert!(interfaces.contains(name), "{name} is not in\n{interfaces}");
            }
            let links = world.host.links().expect("links");
            assert!(
                links.contains(&"rr-out".to_owned()) && !links.contains(&"moved".to_owned()),
                "{links:?}"
            );
            let seen = world.attach(&["/bin/cat", "/proc/net/dev"]);
            assert!(String::from_utf8_lossy(&seen.stdout).contains("wan:"), "{seen:?}");
            for forbidden in [
                &["/bin/touch", "/usr/ringroad-test"][..],
                &["/bin/mknod", "/tmp/ringroad-test", "c", "1", "1"],
                &["/bin/mount", "-t", "tmpfs", "none", "/tmp"],
            ] {
                assert!(!world.attach(forbidden).status.success(), "{forbidden:?}");
            }
            let stop = || running.stop();
            assert_eq!(
                world.host.inside(stop).expect("the namespace").expect("it ends"),
                StopOutcome::InTime
            );
            let links = world.host.links().expect("links");
            assert!(
                links.contains(&"moved".to_owned()) && !links.contains(&"rr-out".to_owned()),
                "{links:?}"
            );
            assert!(world.is_gone());
        }

        /// The situation after a SIGKILL of the supervisor: the cleaner, which has a record of the container, ends it, whether
        /// its `lxc-start` still lives or not.
        #[test]
        fn what_is_left_behind_is_ended_and_removed() {
            support::needs!(Root, Program("ip"), Program("lxc-start"));
            for monitor_dies in [false, true] {
                let world = World::new("lxc-left");
                let running = world.start();
                let init = running.pid();
                if monitor_dies {
                    let monitor = support::children_of(std::process::id())
                        .into_iter()
                        .find(|child| child.words.first().is_some_and(|word| word.ends_with("lxc-start")))
                        .expect("it is our child");
                    let kill = Command::new("kill").args(["-9", &monitor.id.to_string()]).status();
                    assert!(kill.expect("a program").success());
                }
                let clean = || world.left().clean(&Programs::default());
                world.host.inside(clean).expect("the namespace").expect("it goes");
                let end = Instant::now() + LONG;
                while Process::look(init).is_some() && Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(5));
                }
                assert_eq!(Process::look(init), None);
                assert!(world.is_gone(), "its lxc-start was killed: {monitor_dies}");
                drop(running);
            }
        }

        #[test]
        fn what_lxc_cannot_do_is_told_in_its_words() {
            support::needs!(Root, Program("ip"), Program("lxc-start"));
            let mut world = World::new("lxc-odd");
            world.container.nics = vec![Nic {
                name: "card".to_owned(),
                link: Link::Phys { link: "nowhere0".to_owned() },
                mac: None,
                mtu: None,
            }];
            let start = || {
                Running::start(
                    &Programs::default(),
                    &world.container,
                    world.folder.path(),
                    TimeLimits::default(),
                )
            };
            let refusal =
                world.host.inside(start).expect("the namespace").expect_err("there is none").to_string();
            assert!(refusal.starts_with("LXC did not start the container"), "{refusal}");
            assert_eq!(refusal.lines().count(), 1, "{refusal}");
            assert!(world.is_gone());
        }
    }
}
