//! `ringroad set NAME KEY=VALUE`: changes a setting of a running router.

use anyhow::{Context, Result};
use api::Request;
use command_line::client::{self, Kind};
use config::Setting;

/// Help text on all settings.
pub(crate) fn keys() -> String {
    let all = Setting::all();
    let width = |column: fn(&Setting) -> &str| {
        all.iter().map(|setting| column(setting).chars().count()).max().unwrap_or(0)
    };
    let (name, value) = (width(|setting| &setting.name), width(|setting| setting.value));
    let line = |setting: &Setting| {
        let lost = setting.loses.map_or_else(String::new, |what| format!("; {what} is lost"));
        let Setting { does, default, .. } = setting;
        format!("  {:<name$}  {:<value$}  {does} (default: {default}{lost})\n", setting.name, setting.value)
    };
    let lines: String = all.iter().map(line).collect();
    format!("Keys and what they take; no packet is lost where nothing else is said:\n{lines}")
}

/// Changes a setting of a router, or of a NIC, given as `router.nic`.
///
/// # Errors
/// There is no such router or setting, or the value is invalid.
pub(crate) fn set(router: &str, setting: &str) -> Result<()> {
    let (key, value) = setting
        .split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .with_context(|| format!("{setting:?} is no setting; write e.g. spin=100us"))?;
    // Names of routers contain no dot.
    let (router, key) = match router.split_once('.') {
        Some((router, nic)) => (router, format!("{nic}.{key}")),
        None => (router, key.to_owned()),
    };
    let mut target = client::find(router, Kind::Router)?;
    let (router, value) = (router.to_owned(), value.to_owned());
    client::request_and_print(&mut target, &Request::Set { router, key, value })
}

#[cfg(test)]
mod tests;
