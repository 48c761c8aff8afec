//! Remains of a router that do not disappear with its namespace's last descriptor, and their removal: by the process that created
//! them, or by the cleaner, which was informed before.
//!
//! An interface that was moved carries in its alias all that is needed to return it to the host, so it can be returned even if no
//! cleaner was informed. So does the other end of a pair: it carries the name of its router.

use std::io;
use std::os::fd::AsFd;

use netlink::{Link, Mac, Netlink, Settings};
use netns::{Id, Namespace, unpublish};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::look::threads_file;

/// Interface group that marks interfaces as ours from their creation (`ip link show group 29298`).
pub(crate) const GROUP: u32 = 0x7272;
/// Alias of `lo` in a router's namespace, and the first word of all other aliases; it is shown beside the name.
pub(crate) const ALIAS: &str = "ringroad";
/// Longest alias of an interface, in octets (`IFALIASZ` of `linux/if.h`, without the terminating NUL).
const LONGEST_ALIAS: usize = 255;

/// Former state of an interface of the host that was moved into a router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedInterface {
    /// Name in the router.
    pub interface: String,
    /// Name on the host.
    pub link: String,
    /// Ethernet address, if it had one.
    pub mac: Option<Mac>,
    /// MTU in octets.
    pub mtu: u32,
    /// True if it was up.
    pub up: bool,
    /// True if it had NAPI threads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub threaded: bool,
    /// Alias that it had; empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub former_alias: String,
}

impl MovedInterface {
    /// Records the state of an interface of the host that is about to be moved, and to be called `interface`.
    pub(crate) fn of(interface: &str, link: &Link, home: &Namespace) -> Self {
        let Link { name, mac, mtu, up, alias, .. } = link;
        let (interface, link, threaded) = (interface.to_owned(), name.clone(), is_threaded(home, name));
        // One of ours is left from a router that could not return it.
        let former_alias = Self::of_alias(alias).map_or_else(|| alias.clone(), |left| left.former_alias);
        Self { interface, link, mac: *mac, mtu: *mtu, up: *up, threaded, former_alias }
    }

    /// Alias that it carries: at most 255 octets, for two names of 15 octets, numbers, and its former alias if there is room for that.
    pub(crate) fn alias(&self) -> String {
        let whole = self.text();
        if whole.len() <= LONGEST_ALIAS { whole } else { self.without_alias().text() }
    }

    fn text(&self) -> String {
        // Strings and numbers always serialize.
        serde_json::to_string(self).map_or_else(|_| ALIAS.to_owned(), |json| format!("{ALIAS} {json}"))
    }

    fn without_alias(&self) -> Self {
        Self { former_alias: String::new(), ..self.clone() }
    }

    /// Parses an alias; `None`: the interface is not one that was moved.
    fn of_alias(alias: &str) -> Option<Self> {
        serde_json::from_str(alias.strip_prefix(ALIAS)?.trim_start()).ok()
    }

    /// Returns it to the host, with its name, Ethernet address, MTU and alias. If somebody has pulled it out to the host, restores these
    /// there. Does nothing if it is in neither place: it was returned before, or was removed from the machine.
    ///
    /// # Errors
    /// Its name was taken by another interface meanwhile: then it is on the host under the name that it had in the router.
    pub(crate) fn bring_home(&self, inside: &Netlink, home: &Namespace) -> io::Result<()> {
        let outside = home.netlink().map_err(io::Error::other)?;
        let Some(found) = self.find(inside)? else { return self.restore_astray(&outside, home) };
        let name = Settings::default().name(&self.link);
        let moved = inside.move_link(found.index, home.as_fd(), &name);
        // Its index may have changed, so it is looked up by name. If its own name is in use, it has kept the other one.
        let at_home = match &moved {
            Ok(()) => Some(outside.link(self.link.as_str())?),
            Err(_) => find_link(&outside, &found.name)?.filter(|link| self.is(link)),
        };
        let Some(at_home) = at_home else { return moved };
        moved.and(self.restore(&outside, home, (at_home.index, &at_home.name)))
    }

    /// Restores its properties on the host, where it has this index and name.
    fn restore(&self, outside: &Netlink, home: &Namespace, (index, name): (u32, &str)) -> io::Result<()> {
        let settings = Settings::default().alias(&self.former_alias).mtu(self.mtu);
        let settings = self.mac.into_iter().fold(settings, Settings::mac);
        let set = outside.set_link(index, &settings);
        let up = if self.up { outside.set_link(index, &Settings::default().up(true)) } else { Ok(()) };
        let threads = if self.threaded { Ok(()) } else { unthread(home, name) };
        set.and(up).and(threads)
    }

    /// Finds it on the host, to which somebody has pulled it out of the namespace: it has its alias there.
    pub(crate) fn astray(&self, outside: &Netlink) -> io::Result<Option<Link>> {
        let links: Vec<Link> = outside.all()?;
        Ok(links.into_iter().find(|link| self.is(link)))
    }

    /// Restores it on the host if somebody has pulled it out of the namespace.
    fn restore_astray(&self, outside: &Netlink, home: &Namespace) -> io::Result<()> {
        let Some(astray) = self.astray(outside)? else { return Ok(()) };
        // An interface that is up cannot be renamed.
        let down = outside.set_link(astray.index, &Settings::default().up(false));
        let named = down.and_then(|()| outside.set_link(astray.index, &Settings::default().name(&self.link)));
        let name = if named.is_ok() { &self.link } else { &astray.name };
        named.and(self.restore(outside, home, (astray.index, name)))
    }

    /// Finds it in the namespace: under its name there and with its alias, or, if the move was interrupted, as it was on the
    /// host.
    pub(crate) fn find(&self, inside: &Netlink) -> io::Result<Option<Link>> {
        match find_link(inside, &self.interface)?.filter(|link| self.is(link)) {
            Some(link) => Ok(Some(link)),
            None => Ok(find_link(inside, &self.link)?
                .filter(|link| link.mac == self.mac && link.alias == self.former_alias)),
        }
    }

    /// Returns true if an interface has its alias, in which the former one may be missing.
    fn is(&self, link: &Link) -> bool {
        Self::of_alias(&link.alias).is_some_and(|found| found.without_alias() == self.without_alias())
    }
}

/// Returns the alias of the other ends of a router's pairs.
pub(crate) fn pair_alias(published: Option<&str>) -> String {
    let alias = published.map(|name| format!("{ALIAS} {name}"));
    alias.filter(|alias| alias.len() <= LONGEST_ALIAS).unwrap_or_else(|| ALIAS.to_owned())
}

/// The other end of a pair, by which the pair can be deleted after somebody has pulled its own end out of the router's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherEnd {
    /// Name of the namespace in which it was created; `None`: the host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Index there.
    pub index: u32,
}

impl OtherEnd {
    /// Finds those with this alias on the host; none if it does not tell whose they are.
    fn on_host(alias: &str, home: &Namespace) -> io::Result<Vec<Self>> {
        if alias == ALIAS {
            return Ok(Vec::new());
        }
        let outside = home.netlink().map_err(io::Error::other)?;
        let links: Vec<Link> = outside.all()?;
        let ends = links.iter().filter(|link| link.alias == alias);
        Ok(ends.map(|link| Self { at: None, index: link.index }).collect())
    }

    /// Deletes the pair, if this end is still where it was created. Another interface has another index or alias.
    fn delete(&self, alias: &str, home: &Namespace) -> io::Result<()> {
        let place = match self.at.as_deref().map(Namespace::open_named) {
            None => home.clone(),
            Some(Err(netns::Error::Missing { .. })) => return Ok(()),
            Some(found) => found.map_err(io::Error::other)?,
        };
        let outside = place.netlink().map_err(io::Error::other)?;
        let deleted = match outside.link(self.index) {
            Ok(link) if link.alias == alias => outside.delete_link(self.index),
            found => found.map(drop),
        };
        match deleted {
            Err(e) if is_errno(&e, Errno::NODEV) => Ok(()),
            other => other,
        }
    }
}

/// Returns true if NAPI threads do the receive work of an interface.
fn is_threaded(namespace: &Namespace, interface: &str) -> bool {
    let read = namespace.sysfs().map(|sysfs| sysfs.read(&threads_file(interface)));
    matches!(read, Ok(Ok(value)) if value != "0")
}

/// Switches threaded NAPI off for an interface, if it is on.
pub(crate) fn unthread(namespace: &Namespace, interface: &str) -> io::Result<()> {
    if !is_threaded(namespace, interface) {
        return Ok(());
    }
    let sysfs = namespace.sysfs().map_err(io::Error::other)?;
    match sysfs.write(&threads_file(interface), "0") {
        Err(e) if is_errno(&e, Errno::OPNOTSUPP) || is_errno(&e, Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// Returns an interface; `None` if there is none of this name.
pub(crate) fn find_link(kernel: &Netlink, name: &str) -> io::Result<Option<Link>> {
    match kernel.link(name) {
        Ok(link) => Ok(Some(link)),
        Err(e) if is_errno(&e, Errno::NODEV) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Returns true if the error has this number.
pub(crate) fn is_errno(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// Remains of a router after a SIGKILL, for the cleaner. A later report for the same name replaces an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// Name of its namespace in /run/netns.
    pub published: Option<String>,
    /// Identity of that namespace.
    pub id: Option<Id>,
    /// Former states of the host's interfaces in it.
    pub kept: Vec<MovedInterface>,
    /// Other ends of its pairs, except for those in other routers, which end with these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<OtherEnd>,
}

impl Leftover {
    /// Returns true if nothing remains.
    pub const fn is_empty(&self) -> bool {
        self.published.is_none()
    }

    /// Looks for a router's remains under a name: its namespace, and on the host the other ends of its pairs. To be removed only if no
    /// such router can be running.
    ///
    /// # Errors
    /// A namespace of this name exists but cannot be examined.
    pub fn find(name: &str, home: &Namespace) -> Result<Option<Self>, Error> {
        let lost = Error::of_namespace(name);
        let namespace = match Namespace::open_named(name) {
            Err(netns::Error::Missing { .. }) => return Ok(None),
            other => other.map_err(&lost)?,
        };
        let inside = namespace.netlink().map_err(&lost)?;
        let asking = |e: io::Error| Error::refused(name, "reading its interfaces", e);
        let links: Vec<Link> = inside.all().map_err(asking)?;
        if !links.iter().any(|link| link.name == "lo" && link.alias == ALIAS) {
            return Ok(None);
        }
        let kept = links.iter().filter_map(|link| MovedInterface::of_alias(&link.alias)).collect();
        let id = namespace.id().map_err(&lost)?;
        let pairs = OtherEnd::on_host(&pair_alias(Some(name)), home).map_err(asking)?;
        Ok(Some(Self { published: Some(name.to_owned()), id: Some(id), kept, pairs }))
    }

    /// Removes the remains: returns moved interfaces to the host, deletes created ones, and removes the name. Objects that belong
    /// to other programs by now stay.
    ///
    /// # Errors
    /// Something could not be removed; everything else was.
    pub fn remove(&self, home: &Namespace) -> Result<(), Error> {
        let (Some(name), Some(id)) = (&self.published, self.id) else { return Ok(()) };
        let removed = self.remove_namespace(name, id, home);
        let alias = pair_alias(Some(name));
        let deleted = self.pairs.iter().map(|end| end.delete(&alias, home)).fold(Ok(()), Result::and);
        removed.and(deleted.map_err(|e| Error::refused(name, "deleting its pairs", e)))
    }

    /// Empties the namespace and removes its name, if the name is still that of this namespace.
    fn remove_namespace(&self, name: &str, id: Id, home: &Namespace) -> Result<(), Error> {
        let lost = Error::of_namespace(name);
        let namespace = match Namespace::open_named(name) {
            Err(netns::Error::Missing { .. }) => return Ok(()),
            other => other.map_err(&lost)?,
        };
        let emptied = if namespace.id().map_err(&lost)? == id {
            empty(name, &namespace, &self.kept, home)
        } else {
            Ok(())
        };
        let unnamed = unpublish(name, id).map(drop).map_err(lost);
        emptied.and(unnamed)
    }
}

/// Removes the router's objects from a namespace that is about to disappear. The kernel destroys namespaces asynchronously;
/// without this the names of interfaces would stay in use until then.
pub(crate) fn empty(
    router: &str,
    own: &Namespace,
    kept: &[MovedInterface],
    home: &Namespace,
) -> Result<(), Error> {
    let inside = own.netlink().map_err(Error::of_namespace(router))?;
    let home_all = kept.iter().map(|one| {
        let doing = || format!("returning `{}` to the host", one.link);
        one.bring_home(&inside, home).map_err(|e| Error::refused(router, doing(), e))
    });
    // All of them are returned, even if one fails.
    let come_home = home_all.fold(Ok(()), Result::and);
    come_home.and(delete_ours(&inside).map_err(|e| Error::refused(router, "deleting its interfaces", e)))
}

fn delete_ours(inside: &Netlink) -> io::Result<()> {
    let links: Vec<Link> = inside.all()?;
    let ours = links.iter().filter(|link| link.group == GROUP);
    // Deleting one end of a pair also deletes the other one.
    let deleted = ours.map(|link| match inside.delete_link(link.index) {
        Err(e) if is_errno(&e, Errno::NODEV) => Ok(()),
        other => other,
    });
    deleted.fold(Ok(()), Result::and)
}
