//! Members of a group with one route table of 100,000 routes and one neighbour table, as firmware in processes: they forward probes by
//! both, follow routes that change, and one that is killed comes back to the same tables.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use bootinfo::Desk;
use config::{Prefix, Route, Router};
use engine::{GroupRoutes, GroupSupplies, HostServices, Instance};
use fib::NextHop;
use rustix::process::{Pid, Signal, kill_process};
use telemetry::Kind;
use vmm::{MemberDesk, SharedMemory};

use crate::traffic::{alone, plan, wait_for};

const FILE: &str = "[switch.west]\n[switch.east]\n[[group]]\nname = 'trio'\nkind = 'parallel'\nmembers = 3\nengine = 'process'\n\
                    spin = '0us'\n[[group.nic]]\nname = 'w'\nattach = 'switch:west'\naddress = '192.0.2.1/24'\n\
                    [[group.nic]]\nname = 'e'\nattach = 'switch:east'\naddress = '198.51.100.1/24'\n";
const MEMBERS: [&str; 3] = ["trio_0", "trio_1", "trio_2"];
const ROUTES: u32 = 100_000;

/// What a supervisor keeps for a group.
struct Keeper {
    routes: Arc<GroupRoutes>,
    neighbours: SharedMemory,
    desks: HashMap<String, MemberDesk>,
}

impl Keeper {
    fn new(member: &Router) -> Self {
        let memory = |len| SharedMemory::sparse("keeper", len).expect("memory");
        let desk = |name: &&str| {
            let desk = MemberDesk::new(Arc::new(memory(Desk::LEN))).expect("a desk");
            ((*name).to_owned(), desk)
        };
        Self {
            routes: Arc::new(GroupRoutes::new(member).expect("a table")),
            neighbours: memory(router::neighbours::shared_len(4096)),
            desks: MEMBERS.iter().map(desk).collect(),
        }
    }

    fn supplies(&self) -> GroupSupplies {
        let copy = |memory: &SharedMemory| -> OwnedFd {
            memory.file().expect("a file").try_clone().expect("a descriptor").into()
        };
        let to_read = self.neighbours.read_only().expect("a descriptor").into();
        let group = || "trio".to_owned();
        GroupSupplies {
            routes: HashMap::from([(group(), copy(self.routes.memory()))]),
            neighbours: HashMap::from([(group(), vec![to_read, copy(&self.neighbours)])]),
            desks: self.desks.iter().map(|(name, desk)| (name.clone(), copy(desk.memory()))).collect(),
        }
    }

    /// The epochs that the vCPUs of all members read.
    fn epochs(&self) -> impl Iterator<Item = u32> + Clone {
        self.desks.values().flat_map(|desk| desk.epochs())
    }
}

/// A member with these routes besides its own, all by this gateway.
fn with_routes(member: &Router, gateway: u8) -> Router {
    let route = |number: u32| Route {
        to: Prefix::containing(Ipv4Addr::from_bits(0x0a00_0000 | number << 8), 24),
        via: Some(Ipv4Addr::new(198, 51, 100, gateway)),
        nic: 1,
    };
    let mut member = member.clone();
    member.routes.extend((0..ROUTES).map(route));
    member
}

fn serve(instance: &Instance) -> bool {
    let serves =
        |member: &&&str| instance.state_of(member, 0).is_some_and(|(_, state)| state.starts_with("serving"));
    MEMBERS.iter().filter(serves).count() == MEMBERS.len()
}

/// By which gateway each member sends packets to the last of the networks.
fn gateways(instance: &Instance) -> Vec<NextHop> {
    let last = Ipv4Addr::from_bits(0x0a00_0009 | (ROUTES - 1) << 8);
    let of =
        |member: &&str| instance.router(member).expect("it runs").router.table().choices(0, last.into(), 0);
    MEMBERS.iter().flat_map(of).collect()
}

#[test]
fn three_processes_forward_by_one_table_of_100_000_routes() {
    let _turn = alone();
    let file = plan(FILE);
    let keeper = Keeper::new(&with_routes(&file.routers[0], 7));
    let supplies = HostServices { groups: keeper.supplies(), ..HostServices::default() };
    // What a supervisor tells a data plane has no routes of the group.
    let told = file.of_data_plane();
    assert!(told.routers.iter().all(|router| router.routes.is_empty()));
    let mut instance = match Instance::start(&told, supplies) {
        Ok(instance) => instance,
        Err(error) => return println!("SKIPPED: {error:#}"),
    };
    // Probes are forwarded by routes of the one table, and to a neighbour of the other one.
    wait_for("all members to serve", || serve(&instance));
    let by = |gateway| NextHop::Gateway { nic: 1, gateway: u32::from_be_bytes([198, 51, 100, gateway]) };
    assert_eq!(gateways(&instance), [by(7); 3]);
    let fill = keeper.routes.memory().resident();
    assert!(fill >= u64::from(4 * ROUTES), "{fill} octets of entries of four octets");

    let edit = keeper.routes.change_to(&with_routes(&file.routers[0], 8)).expect("room").expect("a change");
    assert_eq!(edit.counts(), (ROUTES as usize, 0));
    edit.keep();
    assert_eq!(gateways(&instance), [by(8); 3]);
    assert!(keeper.routes.retired() > 0, "the other gateway may still be read");
    let epoch = keeper.routes.epoch();
    for (name, desk) in &keeper.desks {
        // Asleep, or beyond.
        wait_for(&format!("{name} to follow"), || [fib::OFFLINE, epoch].contains(&desk.epochs()[0]));
    }
    wait_for("what is not read to be free", || {
        keeper.routes.reclaim(keeper.epochs());
        keeper.routes.retired() == 0
    });

    let victim = instance.status()[1].pid.and_then(Pid::from_raw).expect("a process");
    kill_process(victim, Signal::KILL).expect("it was there");
    let mut events = Vec::new();
    wait_for("a new process", || {
        events.extend(instance.look_after(Instant::now()).into_iter().map(|event| event.kind));
        events.contains(&Kind::Restarted)
    });
    wait_for("all members to serve again", || {
        instance.look_after(Instant::now());
        serve(&instance)
    });
    assert_eq!(gateways(&instance), [by(8); 3]);
    drop(instance);
    assert!(keeper.epochs().all(|epoch| epoch == fib::OFFLINE), "nobody reads any more");
}
