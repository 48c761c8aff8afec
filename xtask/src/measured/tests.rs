use std::collections::BTreeSet;

use super::papers::Claims;
use super::*;

fn run_of(name: &str, lines: &[&str]) -> Run {
    let text = format!(
        "# AMD EPYC (family 26 model 2), 2 CPUs, Linux 6.18\n# commit abc1234\n# 2026-11-23\n{}\n",
        lines.join("\n")
    );
    Run::parse(name, &text).unwrap()
}

#[test]
fn a_run_that_is_kept_is_read_as_it_was() {
    let run = run_of("000/fig13", &["| a | 1 |", "SHAPE 000/fig13 holds: x (peak): y"]);
    assert_eq!((run.commit.as_str(), run.date.as_str(), run.lines.len()), ("abc1234", "2026-11-23", 2));
    assert_eq!(Run::parse("000/fig13", &run.text()).unwrap(), run);
    assert!(Run::parse("x", "# machine only\n").is_err());
}

#[test]
fn claims_are_listed_under_their_run_and_their_machine() {
    let text = measured(&[run_of("000/fig13", &["a table", "SHAPE 000/fig13 holds: x (peak): y"])]);
    assert!(text.contains("## AMD EPYC (family 26 model 2), 2 CPUs, Linux 6.18\n\n### 000/fig13\n\nCommit abc1234, 2026-11-23.\n\na table\n* 000/fig13 holds: x"), "{text}");
}

#[test]
fn what_is_played_and_in_how_many_rounds_is_read() {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let (some, all) = (words("--rounds 6 bench"), words("000/fig1 004/tx"));
    assert_eq!(wishes(&some).unwrap(), (Some(6), vec![&"bench".to_owned()]));
    assert_eq!(wishes(&all).unwrap(), (None, all.iter().collect()));
    for wrong in ["--rounds", "--rounds 0", "--rounds x", "--round 6"] {
        assert!(wishes(&words(wrong)).is_err(), "{wrong}");
    }
}

#[test]
fn the_readme_keeps_its_words_and_gets_its_figures() {
    let readme = format!("words\n{}old\n{}more\n", MARKS.0, MARKS.1);
    let line = "RESULT name=forward/kvm/virtio-net/64 unit=mpps median=40.0 min=39 max=41 n=5 c2c_ns=100";
    let text = with_figures(&readme, &[run_of("bench", &[line; 6])]).unwrap();
    assert!(text.starts_with("words\n") && text.ends_with("more\n") && !text.contains("old"), "{text}");
    assert!(
        text.contains(
            "| a router between two rings | 40.0 mpps, near | DPDK's l3fwd, tuned | not measured |"
        ),
        "{text}"
    );
    assert_eq!(with_figures("no marks", &[]).unwrap(), "no marks");
    assert!(with_figures(MARKS.0, &[]).is_err());
}

#[test]
fn the_page_about_security_has_the_newest_run_of_the_attacks_and_no_other_page_has_one() {
    let page = format!("words\n{}stale\n{}more\n", ATTACK_MARKS.0, ATTACK_MARKS.1);
    let run = run_of(store::ATTACKS, &["SECONDS 60", "| wait | 1 |"]);
    let older = Run { date: "2026-11-20".to_owned(), lines: vec!["| wait | 2 |".to_owned()], ..run.clone() };
    let runs = [run, older];
    let text = with_attacks(&page, &runs).unwrap();
    assert!(text.starts_with("words\n") && text.ends_with("more\n") && !text.contains("stale"), "{text}");
    assert!(text.contains(" wait | 1 |\n") && !text.contains(" wait | 2 |\n"), "{text}");
    assert!(!measured(&runs).contains("abc1234"), "it is the page of figures");
    assert!(with_attacks(&page, &[]).unwrap().contains("\nNothing was measured yet.\n"));
}

#[test]
fn the_pages_have_the_marks() {
    for (path, marks) in [("README.md", MARKS), ("SECURITY.md", ATTACK_MARKS)] {
        let page = fs::read_to_string(root().join(path)).unwrap();
        let count = |mark: &str| page.matches(mark).count();
        assert_eq!((count(marks.0), count(marks.1)), (1, 1), "{path}");
    }
}

#[test]
fn each_item_of_the_papers_has_a_verdict_and_contradictions_their_reason() {
    let items = "[[item]]\nnumber = 1\npaper = \"000\"\nwhat = \"queues\"\nfigures = [\"000/fig13\"]\n\
                 [[item]]\nnumber = 2\npaper = \"003\"\nwhat = \"VF\"\nnot_run = \"no hardware\"\n";
    let lines = [
        "SHAPE 000/fig13 holds: a (peak): b",
        "SHAPE 000/fig13 contradicts: 500 fall (overload): 1.0: since",
    ];
    let none = Claims::new();
    let text = papers::page(items, &[run_of("000/fig13", &lines)], &none).unwrap();
    assert!(
        text.contains(
            "| 1 | 000 | queues | `lab run 000/fig13` | 000/fig13: 1 contradicts, 1 holds (abc1234) |"
        ),
        "{text}"
    );
    assert!(
        text.contains("not-run: no hardware") && text.contains("500 fall (overload): 1.0: since"),
        "{text}"
    );
    assert!(papers::page(&items.replace("number = 2", "number = 3"), &[], &none).is_err());
    assert!(papers::page("[[item]]\nnumber = 1\npaper = \"\"\nwhat = \"\"\n", &[], &none).is_err());
}

#[test]
fn what_is_not_run_with_a_reason_lacks_no_result_file() {
    let items = "[[item]]\nnumber = 1\npaper = \"000\"\nwhat = \"x\"\nfigures = [\"000/fig2\"]\nnot_run = \"five CPUs\"\n";
    let none = Claims::new();
    let text = papers::page(items, &[], &none).unwrap();
    assert!(text.contains("| not-run: five CPUs |"), "{text}");
    let run = run_of("000/fig2", &["SHAPE 000/fig2 holds: a (peak): b"]);
    let text = papers::page(items, &[run], &none).unwrap();
    assert!(text.contains("| 000/fig2: 1 holds (abc1234); not-run: five CPUs |"), "{text}");
}

#[test]
fn claims_that_a_figure_no_longer_has_or_has_got_since_are_told_apart() {
    let items =
        "[[item]]\nnumber = 1\npaper = \"000\"\nwhat = \"x\"\nfigures = [\"000/fig2\", \"000/fig16\"]\n";
    let claims = [("000/fig2", vec!["a (peak)", "a: more (peak)"]), ("000/fig16", Vec::new())];
    let owned = |(id, claims): (&str, Vec<&str>)| {
        (id.to_owned(), claims.into_iter().map(str::to_owned).collect::<Vec<_>>())
    };
    let lines = ["SHAPE 000/fig2 holds: a (peak): b", "SHAPE 000/fig2 fails: a (overload): c"];
    let runs = [run_of("000/fig2", &lines), run_of("000/fig16", &["a drawing"])];
    let text = papers::page(items, &runs, &Claims::from(claims.map(owned))).unwrap();
    let wanted = "| 000/fig2: 1 holds, 1 of claims it no longer has, 1 not judged yet (abc1234); \
                  000/fig16 printed, nothing claimed (abc1234) |";
    assert!(text.contains(wanted) && !text.contains("## What fails"), "{text}");
}

#[test]
fn an_item_has_the_verdicts_on_the_limits_of_its_cases() {
    let items =
        "[[item]]\nnumber = 1\npaper = \"000\"\nwhat = \"x\"\nbench = [\"group-killed\", \"density\"]\n";
    let none = Claims::new();
    let text = papers::page(items, &[], &none).unwrap();
    let open = "| `cargo xtask bench group-killed density` | group-killed not-run yet: in no result file of a bench; \
                density not-run yet: in no result file of a bench |";
    assert!(text.contains(open), "{text}");
    let line = |case: &str, median: u32| {
        format!("RESULT name={case} unit=ms median={median} min={median} max={median} n=100")
    };
    let mut lines = vec![line("group-killed/kvm/virtio-net/tap/parallel", 12); 6];
    lines.extend(vec![line("group-killed/kvm/virtio-net/tap/multistage", 70); 6]);
    // Too few for an interval.
    lines.extend(vec![line("density/kvm/200-routers", 1); 3]);
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    // What a figure printed is no bench.
    let runs = [run_of("000/fig18", &lines), run_of("bench", &lines)];
    let text = papers::page(items, &runs, &none).unwrap();
    let judged = "| group-killed: 1 fails, 1 holds (abc1234); density: 1 open (abc1234) |";
    assert!(text.contains(judged), "{text}");
    let unknown = papers::page(&items.replace("density", "group"), &[], &none).unwrap_err().to_string();
    assert!(unknown.contains("item 1: no case \"group\" has a limit"), "{unknown}");
}

#[test]
fn a_page_tells_the_verdicts_of_runs_before_and_what_a_bench_lacks() {
    let mut run = run_of("000/fig13", &["SHAPE 000/fig13 holds: a (peak): b"]);
    run.earlier.push(run_of(
        "000/fig13",
        &["SHAPE 000/fig13 fails: a (peak): b", "SHAPE 000/fig13 holds: c (x): d"],
    ));
    let text = measured(&[run, run_of("bench", &["MISSING ovs, l3fwd"])]);
    assert!(text.contains("\nEarlier: commit abc1234, 2026-11-23: 1 fails, 1 holds.\n"), "{text}");
    assert!(text.contains("\nNot measured in every round: ovs, l3fwd.\n"), "{text}");
}

#[test]
fn the_list_of_items_is_complete() {
    let items = fs::read_to_string(root().join("docs/papers.toml")).unwrap();
    let claims = papers::claims(&root().join("figures")).unwrap();
    let page = papers::page(&items, &[], &claims).unwrap();
    assert_eq!(page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| |")).count(), 67);
    let listed: toml::Table = toml::from_str(&items).unwrap();
    let listed = listed["item"].as_array().unwrap();
    let figures = listed.iter().filter_map(|item| item.get("figures")?.as_array()).flatten();
    let named: BTreeSet<&str> = figures.filter_map(toml::Value::as_str).collect();
    let there: BTreeSet<&str> = claims.keys().map(String::as_str).collect();
    assert_eq!(named, there, "figures that items name, and those that there are");
}
