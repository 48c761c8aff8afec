//! Minimal parser of HTTP/1.1 (RFC 9112) for scrapes: the request line, and the end of the header.

/// Beginning of a successful response.
pub(crate) const OK: &[u8] = b"HTTP/1.1 200 OK\r\n";

/// Result of parsing a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Request for the page.
    Page,
    /// To be answered by this status.
    Refused(Status),
}

/// Reason why no page is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    BadRequest,
    NotFound,
    MethodNotAllowed,
    HeaderTooLarge,
    Unavailable,
}

impl Status {
    const fn line(self) -> &'static str {
        match self {
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed\r\nAllow: GET",
            Self::HeaderTooLarge => "431 Request Header Fields Too Large",
            Self::Unavailable => "503 Service Unavailable",
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::BadRequest => "this is not an HTTP/1.1 request\n",
            Self::NotFound => "there is only /metrics\n",
            Self::MethodNotAllowed => "there is only GET\n",
            Self::HeaderTooLarge => "the request is too long\n",
            Self::Unavailable => "the counters cannot be read just now\n",
        }
    }
}

/// Parses the octets received so far; `None` until the header is complete.
pub(crate) fn parse(octets: &[u8]) -> Option<Asked> {
    let line = octets.split(|octet| *octet == b'\n').next().unwrap_or_default();
    if line.len() == octets.len() {
        return None;
    }
    // An invalid request line is answered before the rest has arrived.
    let Some(asked) = first_line(line.strip_suffix(b"\r").unwrap_or(line)) else {
        return Some(Asked::Refused(Status::BadRequest));
    };
    // An empty line ends the header; a line may end without a carriage return (section 2.2).
    let complete =
        octets.windows(3).any(|end| end == b"\n\r\n") || octets.windows(2).any(|end| end == b"\n\n");
    complete.then_some(asked)
}

/// Parses `GET /metrics HTTP/1.1`; `None` if the line has another form.
fn first_line(line: &[u8]) -> Option<Asked> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !matches!(version, "HTTP/1.0" | "HTTP/1.1") || !is_method(method) {
        return None;
    }
    if path(target) != Some("/metrics") {
        return Some(Asked::Refused(Status::NotFound));
    }
    Some(if method == "GET" { Asked::Page } else { Asked::Refused(Status::MethodNotAllowed) })
}

/// Path of a target in origin form, or in absolute form, which a server has to accept too (section 3.2.2).
fn path(target: &str) -> Option<&str> {
    let path = match target.get(..SCHEME.len()) {
        // Behind the authority.
        Some(scheme) if scheme.eq_ignore_ascii_case(SCHEME) => {
            let rest = target.get(SCHEME.len()..)?;
            rest.get(rest.find(['/', '?'])?..)?
        }
        _ => target,
    };
    path.split('?').next()
}

/// Beginning of a target in absolute form.
const SCHEME: &str = "http://";

fn is_method(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|octet| octet.is_ascii_uppercase())
}

/// Complete response with a page.
pub(crate) fn with_page(page: &str) -> Vec<u8> {
    answer("200 OK", "text/plain; version=0.0.4; charset=utf-8", page)
}

/// Complete response without a page.
pub(crate) fn refusal(status: Status) -> Vec<u8> {
    answer(status.line(), "text/plain; charset=utf-8", status.text())
}

/// Complete refusal of these octets of a request; without a body after HEAD (RFC 9110, section 9.3.2).
pub(crate) fn refusal_of(request: &[u8], status: Status) -> Vec<u8> {
    let mut whole = refusal(status);
    if request.starts_with(b"HEAD ")
        && let Some(end) = whole.windows(4).position(|end| end == b"\r\n\r\n")
    {
        whole.truncate(end + 4);
    }
    whole
}

fn answer(status: &str, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WORDS: &[&[u8]] =
        &[b"GET", b"POST", b" ", b"/metrics", b"?a", b"HTTP/1.1", b"HTTP/1.0", b"\r\n", b"\n", b"Host: a"];

    /// Octets as clients may send them, often similar to requests.
    fn octets() -> impl Strategy<Value = Vec<u8>> {
        let words = prop::sample::select(WORDS);
        let piece =
            prop_oneof![4 => words.prop_map(<[u8]>::to_vec), 1 => prop::collection::vec(any::<u8>(), 0..8)];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn more_octets_never_change_an_answer(octets in octets()) {
            let mut first = None;
            for end in 0..=octets.len() {
                let asked = parse(&octets[..end]);
                prop_assert!(first.is_none() || asked == first, "{end}");
                first = asked;
            }
        }

        #[test]
        fn only_a_whole_get_of_the_page_has_it(octets in octets()) {
            let text = String::from_utf8_lossy(&octets);
            let line = text.split('\n').next().unwrap_or_default().trim_end_matches('\r');
            let good = line.starts_with("GET /metrics") && (line.ends_with(" HTTP/1.1") || line.ends_with(" HTTP/1.0"));
            prop_assert!(parse(&octets) != Some(Asked::Page) || good, "{}", text);
        }
    }

    #[test]
    fn a_scrape_is_understood() {
        for text in [
            "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /metrics HTTP/1.0\r\n\r\n",
            "GET /metrics?name=a HTTP/1.1\n\n",
            "GET /metrics HTTP/1.1\nHost: a\n\r\n",
            "GET /metrics HTTP/1.1\r\nHost: a\n\r\n",
            "GET http://localhost:9477/metrics HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET HTTP://a/metrics?name=/b HTTP/1.1\r\nHost: a\r\n\r\n",
        ] {
            assert_eq!(parse(text.as_bytes()), Some(Asked::Page), "{text:?}");
        }
    }

    #[test]
    fn a_part_of_a_request_waits_for_the_rest() {
        let whole = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
        for end in 0..whole.len() {
            assert_eq!(parse(&whole[..end]), None, "{end}");
        }
    }

    #[test]
    fn what_is_not_a_scrape_is_told_why() {
        for (text, status) in [
            ("GET / HTTP/1.1\r\n\r\n", Status::NotFound),
            ("GET /metricsx HTTP/1.1\r\n\r\n", Status::NotFound),
            ("GET http://a HTTP/1.1\r\n\r\n", Status::NotFound),
            ("GET http://a/ HTTP/1.1\r\n\r\n", Status::NotFound),
            ("GET http://a?/metrics HTTP/1.1\r\n\r\n", Status::NotFound),
            ("GET https://a/metrics HTTP/1.1\r\n\r\n", Status::NotFound),
            ("POST /metrics HTTP/1.1\r\n\r\n", Status::MethodNotAllowed),
            ("GET /metrics HTTP/2\r\n", Status::BadRequest),
            ("get /metrics HTTP/1.1\r\n", Status::BadRequest),
            ("GET  /metrics HTTP/1.1\r\n", Status::BadRequest),
            ("\r\n", Status::BadRequest),
            ("\x16\x03\x01\x02\n", Status::BadRequest),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(Asked::Refused(status)), "{text:?}");
        }
        assert_eq!(parse(&[0xff, 0xfe, b'\n']), Some(Asked::Refused(Status::BadRequest)));
    }

    #[test]
    fn an_answer_says_how_long_it_is() {
        let text = String::from_utf8(with_page("a 1\n")).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("\r\nContent-Length: 4\r\n"),
            "{head}"
        );
        assert_eq!(body, "a 1\n");
    }
}
