use config::learned::{LearnedFate, LearnedRoute};

use super::*;
use crate::bell::belled;

#[test]
fn routes_of_a_group_are_written_here_and_the_data_plane_is_told_the_rest() {
    let file = "[[group]]\nname = 'core'\nkind = 'parallel'\nmembers = 2\ncontrol = {}\n\
                [[group.nic]]\nname = 'lan'\nattach = 'tap:rr-lan'\naddress = '192.0.2.1/24'\n";
    let plan = config::parse(file, "x.toml").expect("good");
    let table = GroupRoutes::new(&plan.routers[0]).expect("a table");
    let (count, epoch) = (table.count(), table.epoch());
    let (reports, taken) = belled().expect("a descriptor");
    let route =
        |last: u8| LearnedRoute { to: [10, last, 0, 0].into(), len: 16, fate: Some(LearnedFate::Local) };
    let first = Lesson { begins: true, routes: vec![route(1)], ..Lesson::default() };
    write(&table, first, &reports);
    let told = taken.next().expect("there may be more");
    assert!(matches!(told, Some(Report::Written { late: 0, is_whole: false, .. })));
    assert!(taken.next().expect("there may be more").is_none(), "nobody else is told a route");
    let addresses = Some(vec![[192, 0, 2, 1].into()]);
    let last =
        Lesson { ends: true, routes: vec![route(2)], addresses: addresses.clone(), ..Lesson::default() };
    write(&table, last, &reports);
    let Ok(Some(Report::Written { late: 0, epoch: now, is_whole: true })) = taken.next() else {
        panic!("it is whole");
    };
    assert!(now > epoch);
    let Ok(Some(Report::Lesson(lesson))) = taken.next() else { panic!("addresses are told") };
    assert_eq!(lesson, Lesson { addresses, ..Lesson::default() });
    assert_eq!(table.count(), count + 2);
}
