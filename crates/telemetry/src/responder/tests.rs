use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

const GET: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

struct Bench {
    responder: Responder,
    /// Stands still unless it is advanced.
    now: Instant,
    path: PathBuf,
    // Last, so that it is dropped last.
    _folder: tempfile::TempDir,
}

fn bench(limits: Limits) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let responder = Responder::bind(&Place::Unix(path.clone()), limits).unwrap();
    Bench { responder, path, now: Instant::now(), _folder: folder }
}

impl Bench {
    fn client(&self) -> UnixStream {
        let client = UnixStream::connect(&self.path).unwrap();
        client.set_nonblocking(true).unwrap();
        client
    }

    fn serve(&mut self) -> usize {
        self.responder.serve(self.now)
    }

    fn count(&self, of: impl Fn(&ResponderCounters) -> &ledger::Counter) -> u64 {
        of(self.responder.counters()).get()
    }
}

/// Everything sent to the client so far.
fn received(client: &mut UnixStream) -> String {
    let mut text = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(n @ 1..) = client.read(&mut chunk) {
        text.extend_from_slice(&chunk[..n]);
    }
    String::from_utf8(text).unwrap()
}

#[test]
fn a_scrape_gets_the_page_and_an_end() {
    let mut bench = bench(Limits::default());
    let mut client = bench.client();
    client.write_all(GET).unwrap();
    assert_eq!(bench.serve(), 1);
    bench.responder.answer("a 1\n");
    let answer = received(&mut client);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\na 1\n"), "{answer}");
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    drop(client);
    assert_eq!(bench.serve(), 0);
    assert_eq!(
        (bench.responder.clients.len(), bench.count(|c| &c.served), bench.count(|c| &c.gone)),
        (0, 1, 0)
    );
}

#[test]
fn a_request_may_come_octet_by_octet() {
    let mut bench = bench(Limits::default());
    let mut client = bench.client();
    for octet in &GET[..GET.len() - 1] {
        client.write_all(&[*octet]).unwrap();
        assert_eq!(bench.serve(), 0);
    }
    client.write_all(&GET[GET.len() - 1..]).unwrap();
    assert_eq!(bench.serve(), 1);
}

#[test]
fn an_answer_that_does_not_fit_the_socket_goes_out_piece_by_piece() {
    let mut bench = bench(Limits::default());
    let mut client = bench.client();
    client.write_all(GET).unwrap();
    assert_eq!(bench.serve(), 1);
    let page = "some_metric_total 1234567\n".repeat(100_000);
    bench.responder.answer(&page);
    let mut answer = String::new();
    for _ in 0..10_000 {
        answer += &received(&mut client);
        let wants_to_write = bench.responder.watched().any(|(_, interest)| interest == PollFlags::OUT);
        assert_eq!(wants_to_write, bench.count(|c| &c.served) == 0);
        if !wants_to_write {
            break;
        }
        bench.serve();
    }
    assert!(answer.ends_with(&page), "{} of {}", answer.len(), page.len());
}

#[test]
fn refusals_are_answered_and_counted() {
    let mut bench = bench(Limits::default());
    for (request, status) in [
        (&b"GET /secrets HTTP/1.1\r\n\r\n"[..], "404"),
        (b"DELETE /metrics HTTP/1.1\r\n\r\n", "405"),
        (b"\x16\x03\x01 hello\n", "400"),
        (&[b'a'; 9000], "431"),
    ] {
        let mut client = bench.client();
        client.write_all(request).unwrap();
        assert_eq!(bench.serve(), 0);
        let answer = received(&mut client);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    assert_eq!((bench.count(|c| &c.refused), bench.count(|c| &c.served)), (4, 0));
}

#[test]
fn an_answer_to_head_has_no_body() {
    let mut bench = bench(Limits::default());
    let mut client = bench.client();
    client.write_all(b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert_eq!(bench.serve(), 0);
    let answer = received(&mut client);
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    assert!(answer.ends_with("\r\nConnection: close\r\n\r\n"), "{answer}");
    assert_eq!(bench.count(|c| &c.refused), 1);
}

#[test]
fn without_a_page_who_waits_is_told_so() {
    let mut bench = bench(Limits::default());
    let mut client = bench.client();
    client.write_all(GET).unwrap();
    assert_eq!(bench.serve(), 1);
    bench.responder.refuse();
    assert!(received(&mut client).starts_with("HTTP/1.1 503 "));
    assert_eq!(bench.serve(), 0);
}

#[test]
fn who_is_slow_is_cut_off_when_the_time_is_over() {
    let mut bench = bench(Limits { time: Duration::from_millis(50), ..Limits::default() });
    let mut asks = bench.client();
    asks.write_all(b"GET /met").unwrap();
    let mut reads = bench.client();
    reads.write_all(GET).unwrap();
    let start = Instant::now();
    assert_eq!(bench.responder.serve(start), 1);
    bench.responder.answer(&"x".repeat(10 << 20));
    let end = bench.responder.deadline().unwrap();
    assert!(end <= start + Duration::from_millis(50) && bench.responder.clients.len() == 2);
    bench.responder.serve(end);
    assert_eq!((bench.responder.clients.len(), bench.count(|c| &c.dropped_slow)), (0, 2));
    assert_eq!(bench.responder.deadline(), None);
}

#[test]
fn too_many_push_the_first_out() {
    let mut bench = bench(Limits { clients: 3, ..Limits::default() });
    let mut clients: Vec<_> = (0..3).map(|_| bench.client()).collect();
    bench.serve();
    let mut late = bench.client();
    late.write_all(GET).unwrap();
    assert_eq!(bench.serve(), 1);
    assert_eq!((bench.responder.clients.len(), bench.count(|c| &c.dropped_many)), (3, 1));
    assert_eq!(clients[0].read(&mut [0]).unwrap(), 0);
    assert!(clients[1].read(&mut [0]).is_err());
}

#[test]
fn who_hangs_up_is_forgotten() {
    let mut bench = bench(Limits::default());
    drop(bench.client());
    let mut client = bench.client();
    client.write_all(GET).unwrap();
    assert_eq!(bench.serve(), 1);
    drop(client);
    bench.responder.answer("a 1\n");
    bench.serve();
    assert_eq!((bench.responder.clients.len(), bench.count(|c| &c.gone)), (0, 2));
}

#[test]
fn who_sends_without_end_gets_one_answer_and_an_end() {
    let mut bench = bench(Limits { time: Duration::from_millis(100), ..Limits::default() });
    let mut client = bench.client();
    for _ in 0..20 {
        let _ = client.write(&[b'\n'; 4096]);
        bench.serve();
        bench.now += Duration::from_millis(10);
    }
    assert_eq!((bench.responder.clients.len(), bench.count(|c| &c.refused)), (0, 1));
}

/// Action of a test.
#[derive(Clone, Debug)]
enum Act {
    Come,
    Say(usize, Vec<u8>),
    Read(usize),
    Leave(usize),
    Serve,
    Answer,
    Refuse,
    Wait,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let say =
        (any::<usize>(), prop_oneof![Just(GET.to_vec()), Just(b"GET /".to_vec()), Just(vec![b'x'; 3000])]);
    let act = prop_oneof![
        3 => Just(Act::Come),
        5 => say.prop_map(|(who, what)| Act::Say(who, what)),
        2 => any::<usize>().prop_map(Act::Read),
        1 => any::<usize>().prop_map(Act::Leave),
        6 => Just(Act::Serve),
        2 => Just(Act::Answer),
        1 => Just(Act::Refuse),
        1 => Just(Act::Wait),
    ];
    prop::collection::vec(act, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_clients_do_all_are_counted_and_gone_in_the_end(acts in acts()) {
        let limits = Limits { clients: 4, request: 2000, time: Duration::from_secs(1) };
        let mut bench = bench(limits);
        let (mut clients, mut now, mut come) = (Vec::new(), Instant::now(), 0);
        for act in acts {
            let count = clients.len().max(1);
            match act {
                Act::Come => {
                    clients.push(bench.client());
                    come += 1;
                }
                Act::Say(who, what) => {
                    // It may have been disconnected.
                    let _ = clients.get_mut(who % count).map(|client| client.write(&what));
                }
                Act::Read(who) => {
                    let _ = clients.get_mut(who % count).map(received);
                }
                Act::Leave(who) => drop((who < clients.len()).then(|| clients.remove(who))),
                Act::Serve => drop(bench.responder.serve(now)),
                Act::Answer => bench.responder.answer(&"a 1\n".repeat(100_000)),
                Act::Refuse => bench.responder.refuse(),
                Act::Wait => now += Duration::from_millis(400),
            }
            prop_assert!(bench.responder.clients.len() <= limits.clients);
            prop_assert!(bench.responder.watched().count() <= limits.clients + 1);
            let latest = bench.responder.deadline().is_none_or(|end| end <= now + limits.time);
            prop_assert!(latest);
        }
        // More clients may be pending than are accepted at once.
        for _ in 0..=come {
            bench.responder.serve(now);
        }
        bench.responder.serve(now + limits.time);
        prop_assert_eq!(bench.responder.clients.len(), 0);
        let accepted = bench.count(|c| &c.accepted);
        prop_assert_eq!(accepted, come);
        let unhappy = [bench.count(|c| &c.dropped_slow), bench.count(|c| &c.dropped_many), bench.count(|c| &c.gone)];
        prop_assert!(unhappy.iter().sum::<u64>() + bench.count(|c| &c.served) <= come);
    }
}

#[test]
fn a_port_of_the_loopback_interface() {
    let any = Place::Tcp("127.0.0.1:0".parse().unwrap());
    let mut responder = Responder::bind(&any, Limits::default()).unwrap();
    let Listener::Tcp(listener) = &responder.listener else { panic!("not a port") };
    let address = listener.local_addr().unwrap();
    assert!(Responder::bind(&Place::Tcp(address), Limits::default()).is_err());
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(GET).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while responder.serve(Instant::now()) == 0 && Instant::now() < end {}
    responder.answer("a 1\n");
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("\r\n\r\na 1\n"), "{answer}");
}

#[test]
fn the_socket_is_its_owners_and_goes_with_the_responder() {
    let bench = bench(Limits::default());
    let mode = std::fs::metadata(&bench.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let place = Place::Unix(bench.path.clone());
    let error = format!("{:#}", Responder::bind(&place, Limits::default()).unwrap_err());
    assert!(error.ends_with("it is a socket of another program"), "{error}");
    let path = bench.path.clone();
    drop(bench.responder);
    assert!(!path.exists());
}

#[test]
fn a_socket_that_was_left_behind_is_replaced_and_a_file_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let place = Place::Unix(path.clone());
    drop(Responder::bind(&place, Limits::default()).unwrap());
    std::fs::write(&path, "mine").unwrap();
    assert!(Responder::bind(&place, Limits::default()).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}
