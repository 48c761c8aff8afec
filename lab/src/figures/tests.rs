use super::*;

#[test]
fn every_cell_has_a_record_with_what_was_published_or_why_it_is_empty() {
    let figures = lab::figures::find("001/fig2a").unwrap();
    let played = play(&figures[0], &Options::default(), &mut Vec::new()).unwrap();
    let records = cells(&figures[0], &played, &Host::describe());
    assert_eq!(records.len(), 24);
    let first = &records[0];
    assert_eq!((first.id.as_str(), first.case.as_str()), ("001/fig2a", "VBox-TX-GH/UDP8"));
    assert_eq!((first.more.get("published"), first.median), (Some(&22.0), None));
    assert!(first.why.contains("VirtualBox"), "{}", first.why);
}
