use config::learned::{LearnedFate, LearnedGroup, LearnedHop, LearnedRoute, LearnedWay, Lesson};

use super::*;

fn table() -> Arc<GroupRoutes> {
    let file = "[[group]]\nname = 'core'\nkind = 'parallel'\nmembers = 2\ncontrol = {}\n\
                [[group.nic]]\nname = 'lan'\nattach = 'tap:rr-lan'\naddress = '192.0.2.1/24'\n";
    let plan = config::parse(file, "x.toml").expect("good");
    Arc::new(GroupRoutes::new(&plan.routers[0]).expect("a table"))
}

#[test]
fn a_table_is_whole_when_everything_was_written_into_it() {
    let mut handle = Handle::played(|_| ()).expect("descriptors");
    assert!(!handle.has_table() && !handle.has_written((0, 1), true), "it writes none");
    let table = table();
    handle.write_into(Some(table.clone()));
    assert!(!handle.has_written((0, 1), false));
    assert!(!handle.is_whole());
    assert!(handle.has_written((7, 2), true), "the table is full");
    assert!(!handle.has_written((8, 3), false), "it was full before");
    assert!(handle.is_whole());
    assert_eq!((handle.late(), handle.epoch), (8, 3));
    // What others say of tables of theirs is not about this one.
    assert!(!handle.learned(None, 0, 99));
    assert_eq!((handle.late(), handle.epoch), (8, 3));
    handle.write_into(Some(table));
    assert!(handle.is_whole(), "nothing has changed");
    handle.write_into(Some(self::table()));
    assert!(!handle.is_whole() && handle.late() == 0, "another table has nothing yet");
}

#[test]
fn gateways_of_learned_routes_are_told_when_they_change_and_to_each_data_plane() {
    let mut handle = Handle::played(|_| ()).expect("descriptors");
    assert_eq!(handle.new_gateways(), None, "it writes no table");
    let table = table();
    handle.write_into(Some(table.clone()));
    let all = |last: &[u8]| -> BTreeSet<(usize, IpAddr)> {
        last.iter().map(|last| (0, IpAddr::from([192, 0, 2, *last]))).collect()
    };
    assert_eq!((handle.new_gateways(), handle.new_gateways()), (Some(all(&[])), None));
    let hop = |last: u8| LearnedHop { link: 0, via: Some([192, 0, 2, last].into()), weight: 1 };
    let way = Some(LearnedWay::Hops(vec![hop(7), hop(8)]));
    let route = LearnedRoute { to: [10, 0, 0, 0].into(), len: 8, fate: Some(LearnedFate::Group(1)) };
    let groups = vec![LearnedGroup { number: 1, way }];
    table.learn(&Lesson { groups, routes: vec![route], ..Lesson::default() });
    assert_eq!((handle.new_gateways(), handle.new_gateways()), (Some(all(&[7, 8])), None));
    handle.forget_gateways();
    assert_eq!(handle.new_gateways(), Some(all(&[7, 8])));
}
