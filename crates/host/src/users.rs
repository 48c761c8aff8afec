//! Users of the host, by number and name, as far as /etc/passwd tells.

use std::fs;
use std::ops::RangeInclusive;

use anyhow::{Result, bail, ensure};

/// Numbers that no distribution and no service manager gives to anybody (systemd, docs/UIDS-GIDS: unused), and which also those
/// containers have that have 16 bits of numbers.
pub const FREE: RangeInclusive<u32> = 60_578..=61_183;
/// The user `nobody`, which processes of routers are.
const NOBODY: u32 = 65_534;
/// Name, password, number, and more, of one user a line.
const FILE: &str = "/etc/passwd";

/// The numbers that users of this host have.
pub fn known() -> Vec<u32> {
    entries(&fs::read_to_string(FILE).unwrap_or_default()).map(|(_, number)| number).collect()
}

/// The number of the user that is called so, or is given by number.
///
/// # Errors
/// One line: there is none, or it is one that has or shares too much.
pub fn number(text: &str) -> Result<u32> {
    number_in(text, &fs::read_to_string(FILE).unwrap_or_default())
}

fn number_in(text: &str, passwd: &str) -> Result<u32> {
    let by_name = entries(passwd).find(|(name, _)| *name == text).map(|(_, number)| number);
    let Some(number) = by_name.or_else(|| text.parse().ok()) else {
        bail!("there is no user '{text}' in {FILE}");
    };
    ensure!(number != 0, "root is who the data plane must not be");
    ensure!(
        number != NOBODY && number != u32::MAX,
        "{text} is who processes of routers are, or nobody at all"
    );
    Ok(number)
}

fn entries(passwd: &str) -> impl Iterator<Item = (&str, u32)> {
    passwd.lines().filter_map(|line| {
        let mut fields = line.split(':');
        Some((fields.next()?, fields.nth(1)?.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/bash\nrr:x:990:990::/:/bin/false\nbroken\n60578:x:12:1::/:\n";

    #[test]
    fn a_user_is_given_by_name_or_number() {
        let of = |text| number_in(text, PASSWD).map_err(|error| error.to_string());
        assert_eq!(of("rr"), Ok(990));
        assert_eq!(of("991"), Ok(991));
        // What is a name is one.
        assert_eq!(of("60578"), Ok(12));
        for (text, why) in [
            ("root", "must not be"),
            ("0", "must not be"),
            ("65534", "nobody at all"),
            ("4294967295", "nobody at all"),
            ("-1", "there is no user '-1'"),
            ("nobody-here", "there is no user"),
        ] {
            assert!(of(text).is_err_and(|told| told.contains(why)), "{text}");
        }
    }
}
