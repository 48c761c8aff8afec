use bootinfo::Desk;
use router::neighbours;

use super::*;
use crate::group_routes::GroupRoutes;

const FILE: &str = "[switch.west]\n[[group]]\nname = 'core'\nkind = 'parallel'\nmembers = 2\n[[group.nic]]\nname = 'w'\n\
                    attach = 'switch:west'\naddress = '192.0.2.1/24'\n";

/// The memory of a group, as its maker has it.
pub(crate) struct Made {
    pub(crate) routes: GroupRoutes,
    pub(crate) neighbours: SharedMemory,
    pub(crate) desks: HashMap<String, SharedMemory>,
    to_read: OwnedFd,
}

impl Made {
    /// Makes the tables of a group that these are members of.
    pub(crate) fn of(members: &[Router]) -> Self {
        let memory = |len| SharedMemory::sparse("made", len).expect("memory");
        let neighbours = memory(neighbours::shared_len(64));
        Self {
            routes: GroupRoutes::new(&members[0]).expect("a table"),
            to_read: neighbours.read_only().expect("a descriptor").into(),
            neighbours,
            desks: members.iter().map(|member| (member.name.clone(), memory(Desk::LEN))).collect(),
        }
    }

    /// Hands them over, as to the process that hears the network.
    pub(crate) fn supplies(&self, group: &str) -> GroupSupplies {
        let copy = |memory: &SharedMemory| -> OwnedFd {
            memory.file().expect("a file").try_clone().expect("a descriptor").into()
        };
        let to_read = self.to_read.try_clone().expect("a descriptor");
        GroupSupplies {
            routes: HashMap::from([(group.to_owned(), copy(self.routes.memory()))]),
            neighbours: HashMap::from([(group.to_owned(), vec![to_read, copy(&self.neighbours)])]),
            desks: self.desks.iter().map(|(member, desk)| (member.clone(), copy(desk))).collect(),
        }
    }
}

fn members() -> Vec<Router> {
    config::parse(FILE, "group.toml").expect("a file").routers
}

#[test]
fn members_are_built_with_one_table_and_a_desk_each() {
    let (members, tables) = (members(), Tables::default());
    assert!(tables.of(&members[0]).is_none(), "nothing was handed over");
    let made = Made::of(&members);
    tables.adopt(made.supplies("core")).expect("mapped");
    let [one, other] = [&members[0], &members[1]].map(|member| tables.of(member).expect("there"));
    assert!(
        Arc::ptr_eq(&one.routes, &other.routes)
            && Arc::ptr_eq(&one.group.neighbours, &other.group.neighbours)
    );
    assert!(!Arc::ptr_eq(&one.group.desk, &other.group.desk));
    tables.keep(|_| true, |member| member == "core_0");
    assert!(tables.of(&members[1]).is_none() && tables.desk("core_1").is_none());
    tables.keep(|_| false, |_| true);
    assert!(tables.of(&members[0]).is_none() && tables.neighbours("core").is_none());
}

#[test]
fn what_is_handed_over_again_is_not_mapped_again_and_what_is_new_is() {
    let (members, tables) = (members(), Tables::default());
    let made = Made::of(&members);
    tables.adopt(made.supplies("core")).expect("mapped");
    let (writer, desk) = (tables.neighbours("core").expect("there"), tables.desk("core_0").expect("there"));
    tables.adopt(made.supplies("core")).expect("mapped");
    assert!(Arc::ptr_eq(&writer, &tables.neighbours("core").expect("there")), "a table has one writer");
    assert!(Arc::ptr_eq(&desk, &tables.desk("core_0").expect("there")));
    tables.adopt(Made::of(&members).supplies("core")).expect("mapped");
    assert!(!Arc::ptr_eq(&writer, &tables.neighbours("core").expect("there")));
}

#[test]
fn a_process_that_is_handed_no_descriptor_to_write_writes_no_neighbour() {
    let (members, tables) = (members(), Tables::default());
    let made = Made::of(&members);
    let mut supplies = made.supplies("core");
    supplies.neighbours.values_mut().for_each(|files| files.truncate(1));
    tables.adopt(supplies).expect("mapped");
    assert!(tables.neighbours("core").is_none() && tables.of(&members[0]).is_some());
    // To be written by the descriptor that is for readers.
    let mut supplies = made.supplies("core");
    supplies.neighbours.values_mut().for_each(|files| files.reverse());
    let error = Tables::default().adopt(supplies).expect_err("refused");
    assert!(format!("{error:#}").starts_with("group core: its neighbour table: cannot map"), "{error:#}");
}
