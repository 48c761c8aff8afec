use super::*;

fn owned(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[test]
fn a_report_is_kept_line_by_line_and_one_without_rows_is_not() {
    let report = Report {
        rows: owned(&["| wait | 0.2 | 1.000 |"]),
        faults: owned(&["hasty: it is late,\n  it said"]),
        skipped: owned(&["console: this host has no KVM"]),
    };
    let kept = lines(&report, 6);
    let wanted = [
        "SECONDS 6",
        "| wait | 0.2 | 1.000 |",
        "SKIPPED: console: this host has no KVM",
        "FAULT hasty: it is late, it said",
    ];
    assert_eq!(kept, wanted);
    let open: Vec<_> = without_row(&kept).map(|spec| spec.name).collect();
    assert_eq!(open.len(), ALL.len() - 1);
    assert!(open.contains(&"hasty") && !open.contains(&"wait"), "{open:?}");
    assert!(lines(&Report { rows: Vec::new(), ..report }, 6).is_empty());
}

#[test]
fn the_page_shows_each_row_and_each_fault_and_says_which_attacks_have_no_row_and_why() {
    let lines = owned(&[
        "SECONDS 6",
        "| wait | 0.2 | 1.000 |",
        "| gone | 0.5 | 1.001 |",
        "SKIPPED: console: this host has no KVM",
        "FAULT hasty: it is late",
        "MISSING console, hasty",
    ]);
    let text = section(("AMD EPYC, 2 CPUs", "abc1234", "2026-11-25"), &lines);
    let head = "AMD EPYC, 2 CPUs; commit `abc1234`, 2026-11-25; 6 s of each attack; faults: 1.\n\n| attack |";
    assert!(text.starts_with(head), "{text}");
    for line in [
        "| `wait`: a vhost-user peer's eventfd makes whoever writes it wait | 0.2 | 1.000 |",
        "| `gone`: of an earlier commit | 0.5 | 1.001 |",
        "* hasty: it is late",
        "* `hasty`: a peer connects and goes",
        "* `console`: a kernel writes to its console without end (this host has no KVM)",
    ] {
        assert!(text.lines().any(|shown| shown == line), "no line {line} in {text}");
    }
    assert_eq!(text.lines().filter(|line| line.starts_with("| `")).count(), 2);
}
