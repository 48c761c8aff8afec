//! End of a run: it waits for its last table, for a limited time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use api::Request;
use api::folder::LOCK;
use link::ToPlane;

use super::stage::{ONE, Stage};
use crate::LAST_WORDS;

const MS: Duration = Duration::from_millis(1);

fn ask_for_the_end(stage: &mut Stage) {
    stage.supervisor().stop.flag().store(true, Ordering::Release);
}

#[test]
fn the_last_table_is_shown_before_the_end() {
    let mut stage = Stage::up(ONE);
    stage.plane().serve(&Default::default());
    ask_for_the_end(&mut stage);
    assert!(!stage.turn().expect("it goes on"), "the last table is not there yet");
    let before = stage.tables();
    let plane = stage.plane();
    plane.serve(&Default::default());
    assert!(stage.turn().expect("it ends"));
    assert_eq!(stage.tables(), before + 1);
    plane.die();
    stage.finish();
    assert!(matches!(plane.told(), Some(ToPlane::Stop)));
    assert!(!stage.socket.with_file_name(LOCK).exists());
}

/// Takes a while to close, and tells that it is closed.
struct Slow(Arc<AtomicBool>);

impl Drop for Slow {
    fn drop(&mut self) {
        sleep(200 * MS);
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn what_a_thread_closes_is_closed_before_the_end() {
    let mut stage = Stage::up(ONE);
    let is_closed = Arc::<AtomicBool>::default();
    stage.supervisor().link_jobs.close(Slow(is_closed.clone()));
    stage.turn().expect("it goes on");
    stage.plane().die();
    stage.finish();
    assert!(is_closed.load(Ordering::Acquire));
}

#[test]
fn a_data_plane_that_says_nothing_delays_the_end_for_a_limited_time() {
    let mut stage = Stage::up(ONE);
    ask_for_the_end(&mut stage);
    assert!(!stage.turn().expect("it goes on"));
    assert!(!stage.after(LAST_WORDS).expect("it goes on"), "perhaps nobody had a CPU");
    assert!(!stage.after(99 * MS).expect("it goes on"));
    assert!(stage.after(MS).expect("it ends"));
}

#[test]
fn the_last_table_is_shown_also_when_nobody_had_a_cpu_for_a_while() {
    let mut stage = Stage::up(ONE);
    ask_for_the_end(&mut stage);
    assert!(!stage.turn().expect("it goes on"));
    let before = stage.tables();
    assert!(!stage.after(LAST_WORDS + 2000 * MS).expect("it goes on"));
    stage.plane().serve(&Default::default());
    assert!(stage.turn().expect("it ends"));
    assert_eq!(stage.tables(), before + 1);
}

#[test]
fn one_that_is_not_up_is_not_waited_for() {
    let mut stage = Stage::start(ONE);
    ask_for_the_end(&mut stage);
    assert!(stage.turn().expect("it ends"));
    let plane = stage.plane();
    stage.finish();
    assert!(plane.was_killed(), "there is nothing to end in good order");
}

#[test]
fn one_that_dies_at_the_end_is_not_started_again() {
    let mut stage = Stage::up(ONE);
    ask_for_the_end(&mut stage);
    assert!(!stage.turn().expect("it goes on"));
    stage.plane().die();
    assert!(stage.turn().expect("it ends"));
    assert_eq!((stage.started(), stage.supervisor().lifecycle.again), (1, None));
}

#[test]
fn a_client_that_stops_the_run_is_answered_first() {
    let mut stage = Stage::up(ONE);
    let mut client = stage.client(&Request::Stop { name: "lab".to_owned() });
    assert!(format!("{:?}", client.next_answer()).contains("run lab is stopping"));
    stage.plane().serve(&Default::default());
    assert!(stage.turn().expect("it ends"));
}
