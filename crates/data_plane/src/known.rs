//! Status of the routers as last seen by the main thread, for the link thread, which reports it whatever the
//! main thread is waiting for.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use api::{RouterStatus, RunStatus};
use engine::{Instance, Relayed};

/// Status published by the main thread: after each look, and after each order before the reply to that.
/// `None`: not yet.
#[derive(Clone, Default)]
pub(super) struct PublishedStatus(Arc<Mutex<Option<Seen>>>);

/// Status of the routers at one moment.
struct Seen {
    run: String,
    routers: Vec<engine::RouterStatus>,
    /// Relay threads in this process of routers that have processes of their own. The supervisor asks those
    /// for the rest.
    relays: Vec<Relayed>,
    /// Threads that serve all members of a group.
    shared: Vec<(String, i32)>,
}

impl PublishedStatus {
    /// Publishes the present status. Returns the threads of all routers.
    pub(super) fn publish(&self, run: &str, instance: &Instance) -> Vec<api::Thread> {
        let relays = instance.relayed().collect();
        let shared = instance.threads_of_groups();
        let seen = Seen { run: run.to_owned(), routers: instance.status(), relays, shared };
        let threads = seen.threads();
        // The previous status is dropped after the lock is released.
        let _before = self.0.lock().unwrap_or_else(PoisonError::into_inner).replace(seen);
        threads
    }

    /// Present status; the supervisor completes it.
    pub(super) fn status(&self, now: Instant) -> Option<RunStatus> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Seen { run, routers, relays, .. } = seen.as_ref()?;
        let routers = routers.iter().map(|known| of_router(known, now)).chain(relays.iter().map(of_relay));
        Some(RunStatus { run: run.clone(), routers: routers.collect(), ..RunStatus::default() })
    }
}

impl Seen {
    fn threads(&self) -> Vec<api::Thread> {
        let own = self.routers.iter().flat_map(|status| &status.threads);
        let relayed = self.relays.iter().flat_map(|relay| &relay.threads);
        own.chain(relayed).chain(&self.shared).map(thread).collect()
    }
}

/// Status of a router in this process.
pub(super) fn of_router(status: &engine::RouterStatus, now: Instant) -> RouterStatus {
    RouterStatus {
        name: status.name.clone(),
        engine: status.engine.name().to_owned(),
        state: status.state,
        since_ms: u64::try_from(now.saturating_duration_since(status.since).as_millis()).unwrap_or(u64::MAX),
        restarts: u32::try_from(status.restarts).unwrap_or(u32::MAX),
        reason: status.reason.clone(),
        pid: status.pid.map(i32::unsigned_abs),
        member: status.member.clone(),
        threads: status.threads.iter().map(thread).collect(),
    }
}

fn of_relay(Relayed { name, threads, member }: &Relayed) -> RouterStatus {
    RouterStatus {
        name: name.clone(),
        engine: String::new(),
        state: api::State::Waiting,
        since_ms: 0,
        restarts: 0,
        reason: None,
        pid: None,
        member: member.clone(),
        threads: threads.iter().map(thread).collect(),
    }
}

fn thread((name, tid): &(String, i32)) -> api::Thread {
    api::Thread { name: name.clone(), tid: *tid }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_known_before_it_was_seen_and_then_until_it_is_seen_anew() {
        let (known, now) = (PublishedStatus::default(), Instant::now());
        assert!(known.status(now).is_none());
        let seen = |state| engine::RouterStatus {
            name: "edge".to_owned(),
            engine: config::Engine::Process,
            state,
            since: now,
            restarts: 2,
            reason: None,
            pid: Some(7),
            member: None,
            threads: vec![("edge/vcpu0".to_owned(), 8)],
        };
        let publish = |state| {
            let threads = vec![("far/wan".to_owned(), 9)];
            let relays = vec![Relayed { name: "far".to_owned(), threads, member: None }];
            let shared = vec![("core/lb0".to_owned(), 10)];
            let seen = Seen { run: "lab".to_owned(), routers: vec![seen(state)], relays, shared };
            let names: Vec<String> = seen.threads().into_iter().map(|thread| thread.name).collect();
            assert_eq!(names, ["edge/vcpu0", "far/wan", "core/lb0"]);
            *known.0.lock().expect("nobody panicked") = Some(seen);
        };
        publish(api::State::Running);
        let later = now + std::time::Duration::from_millis(30);
        let status = known.status(later).expect("it was seen");
        let [edge, far] = status.routers.as_slice() else { panic!("{status:?}") };
        assert_eq!((edge.state, edge.since_ms, edge.restarts), (api::State::Running, 30, 2));
        assert_eq!((far.name.as_str(), far.threads.len()), ("far", 1));
        publish(api::State::Stopped);
        assert_eq!(known.status(later).expect("it was seen").routers[0].state, api::State::Stopped);
    }
}
