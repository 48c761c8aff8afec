//! Users of the host by number and name, according to /etc/passwd.

use std::fs;
use std::ops::RangeInclusive;

use anyhow::{Result, bail, ensure};

/// User numbers that no distribution and no service manager assigns (systemd, docs/UIDS-GIDS: unused), and
/// that also exist in containers with 16-bit user numbers.
pub const FREE: RangeInclusive<u32> = 60_578..=61_183;
/// User `nobody`, which processes of routers run as.
const NOBODY: u32 = 65_534;
/// File with name, password, number and more of one user per line.
const FILE: &str = "/etc/passwd";

/// Numbers of the users of this host.
pub fn known() -> Vec<u32> {
    entries(&fs::read_to_string(FILE).unwrap_or_default()).map(|(_, number)| number).collect()
}

/// Number of the user given by name or by number.
///
/// # Errors
/// In one line, that there is no such user, or that it has or shares too many rights.
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
        // A text that is a user's name counts as the name, even if it is a number.
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
