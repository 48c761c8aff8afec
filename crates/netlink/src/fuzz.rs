//! Body of the fuzz target, which feeds octets in place of the kernel's.

use std::collections::BTreeMap;

use crate::answers::{Content, answers};
use crate::mirror::Tables;
use crate::queue::read;
use crate::{Change, News, Object};

/// Feeds a datagram to the tables of a mirror.
///
/// # Panics
/// The changes reported differ from the content of the tables.
pub fn take_datagram(datagram: &[u8]) {
    let (mut tables, mut told) = (Tables::default(), Told::default());
    for answer in answers(datagram).flatten() {
        let message = match answer.content {
            Content::Object(message) => message,
            Content::Queue(octets) => {
                let _ = read(&octets);
                continue;
            }
            Content::End(_) | Content::Other => continue,
        };
        let mut news = Vec::new();
        tables.take(message, answer.replaces, &mut news);
        news.into_iter().for_each(|news| told.take(news));
    }
    assert!(tables.links.iter().eq(told.links.values()));
    assert!(tables.addresses.iter().eq(told.addresses.values()));
    assert!(tables.neighbours.iter().eq(told.neighbours.values()));
    assert!(tables.routes.iter().eq(told.routes.values()));
    assert!(tables.rules.iter().eq(told.rules.values()));
}

/// Tables as maintained by a client that only sees the reported changes.
#[derive(Default)]
struct Told {
    links: Rows<crate::Link>,
    addresses: Rows<crate::Address>,
    neighbours: Rows<crate::Neighbour>,
    routes: Rows<crate::Route>,
    rules: Rows<crate::Rule>,
}

type Rows<T> = BTreeMap<(<T as Object>::Id, <T as Object>::Variant), T>;

impl Told {
    fn take(&mut self, news: News) {
        match news {
            News::Link(change) => follow(&mut self.links, change),
            News::Address(change) => follow(&mut self.addresses, change),
            News::Neighbour(change) => follow(&mut self.neighbours, change),
            News::Route(change) => follow(&mut self.routes, change),
            News::Rule(change) => follow(&mut self.rules, change),
        }
    }
}

fn follow<T: Object>(rows: &mut Rows<T>, change: Change<T>) {
    match change {
        Change::Set(row) => drop(rows.insert(row.key(), row)),
        Change::Gone(row) => {
            assert!(rows.remove(&row.key()).is_some(), "what was not there is told to be gone")
        }
    }
}
