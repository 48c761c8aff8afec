use super::*;

fn router() -> Router {
    let text = "[[router]]\nname = 'edge'\nengine = 'process'\n\
                [[router.nic]]\nname = 'lan'\nattach = 'null'\naddress = '10.0.1.1/24'\n\
                [[router.nic]]\nname = 'wan'\nattach = 'null'\naddress = '192.0.2.1/24'\n";
    config::parse(text, "file.toml").expect("a good file").routers.remove(0)
}

fn sample(heard: u64, last_octet: u8) -> ConflictSample {
    ConflictSample { heard, last: (1, u32::from(Ipv4Addr::new(192, 0, 2, 1)), [2, 0, 0, 0, 0, last_octet]) }
}

#[test]
fn a_claim_is_told_at_once_and_then_at_most_once_a_minute() {
    let (plan, start, mut conflicts) = (router(), Instant::now(), ArpConflicts::default());
    let mut told = Vec::new();
    // Two vCPUs; one receives a claim per second from the third second on, for two minutes.
    for second in 0..300 {
        let heard = if second < 3 { 0 } else { (second - 2).min(120) };
        let now = start + Duration::from_secs(second);
        let line = conflicts.look(now, &plan, [sample(0, 7), sample(heard, 9)].into_iter());
        told.extend(line.map(|line| (second, line)));
    }
    let (seconds, lines): (Vec<u64>, Vec<String>) = told.into_iter().unzip();
    assert_eq!(seconds, [3, 63, 123]);
    assert!(lines[0].starts_with(
        "NIC wan: another station (02:00:00:00:00:09) says that it has 192.0.2.1, which is this router's"
    ));
    for (line, packets) in lines.iter().zip([1, 60, 59]) {
        assert!(line.contains(&format!("({packets} ARP packets")), "{line}");
    }
}

#[test]
fn what_a_guest_makes_up_is_a_line_all_the_same() {
    let (plan, mut conflicts) = (router(), ArpConflicts::default());
    let sample = ConflictSample { heard: u64::MAX, last: (200, 0, [255; 6]) };
    let line = conflicts.look(Instant::now(), &plan, [sample].into_iter()).expect("a line");
    assert!(
        line.starts_with("NIC ?: another station (ff:ff:ff:ff:ff:ff) says that it has 0.0.0.0"),
        "{line}"
    );
}
