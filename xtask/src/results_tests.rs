use super::{parse, table};

#[test]
fn a_line_needs_its_six_keys() {
    assert!(parse("RESULT name=boot unit=ms median=20 min=19 max=25 n=10").is_some());
    assert!(parse("RESULT name=boot unit=ms median=20 min=19 max=25").is_none());
    assert!(parse("RESULT name=boot unit=ms median=nan min=19 max=25 n=3").is_none());
    assert!(parse("RESULTS").is_none());
    assert!(parse("near: RESULT name=boot").is_none());
}

#[test]
fn rounds_join_and_near_and_far_stay_apart() {
    let lines = [
        "RESULT name=forward/64 unit=mpps median=120 min=110 max=125 n=5 lost=0 c2c_ns=90",
        "RESULT name=peer unit=mpps median=12.34 min=4.2 max=23.9 n=3",
        "RESULT name=forward/64 unit=mpps median=100 min=99 max=130 n=5 c2c_ns=100.4",
        "RESULT name=forward/64 unit=mpps median=43 min=40 max=44 n=5 c2c_ns=450",
    ];
    let samples: Vec<_> = lines.iter().filter_map(|line| parse(line)).collect();
    let text = table(&samples);
    let rows: Vec<&str> = text.lines().skip(2).collect();
    assert_eq!(
        rows,
        [
            "| forward/64 | near | 95.2 | 110 | - | 99.0..130 | mpps | 10 |",
            "| peer | not told | - | 12.3 | - | 4.20..23.9 | mpps | 3 |",
            "| forward/64 | far | 450 | 43.0 | - | 40.0..44.0 | mpps | 5 |",
        ]
    );
}

#[test]
fn six_rounds_have_the_interval_of_their_median() {
    let round = |n: u32| {
        let (median, c2c) = (40 + n, 100 + 2 * n);
        parse(&format!("RESULT name=forward/64 unit=mpps median={median} min=1 max=99 n=5 c2c_ns={c2c}"))
    };
    let text = table(&(0..6).filter_map(round).collect::<Vec<_>>());
    let last = text.lines().next_back();
    let wanted = "| forward/64 | near | 105 | 42.5 | 40.0..45.0 | 1.00..99.0 | mpps | 30 |";
    assert_eq!(last, Some(wanted), "{text}");
}
