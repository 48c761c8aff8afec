use super::*;

fn router() -> Router {
    let text = "[[router]]\nname = 'edge'\nengine = 'process'\nneighbours = 100\n\
                [[router.nic]]\nname = 'lan'\nattach = 'null'\naddress = '10.0.1.1/24'\n";
    config::parse(text, "file.toml").expect("a good file").routers.remove(0)
}

#[test]
fn each_kind_is_told_at_once_and_then_at_most_once_a_minute() {
    let (plan, start, mut shortages) = (router(), Instant::now(), Shortages::default());
    let mut told = Vec::new();
    for second in 0..200 {
        let now = start + Duration::from_secs(second);
        let replaced = second.saturating_sub(4).min(100);
        let paced = if second < 10 { 0 } else { 7 };
        let sign = Sign { replaced, paced, claimed: 0 };
        told.extend(shortages.look(now, &plan, sign).into_iter().map(|line| (second, line)));
    }
    let seconds: Vec<u64> = told.iter().map(|(second, _)| *second).collect();
    assert_eq!(seconds, [5, 10, 65, 125]);
    assert!(
        told[0].1.starts_with("the neighbour table has no room: 1 neighbours")
            && told[0].1.contains("at most 100")
    );
    assert!(told[1].1.starts_with("7 packets to unknown neighbours were dropped"));
    assert!(told[3].1.contains(": 39 neighbours"), "{}", told[3].1);
}

#[test]
fn counters_of_all_vcpus_are_added_up() {
    let vcpus = [VcpuShared::default(), VcpuShared::default()];
    vcpus[0].router.nd_conflicts.add(2);
    vcpus[1].router.nd_conflicts.add(3);
    vcpus[1].router.neighbours_replaced.add(1);
    assert_eq!(Sign::read(vcpus.iter()), Sign { replaced: 1, paced: 0, claimed: 5 });
}
