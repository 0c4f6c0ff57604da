//! Limits that keep strangers from overloading a server: how many answers outside of sessions it gives and to whom, which cookies are used up, and how
//! many tests an address has. All of it takes a fixed amount of memory, whatever arrives.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use warpline_core::{TimeDelta, Timestamp};

use super::auth::COOKIE_LIFE;

/// The period over which answers are counted.
const PERIOD: TimeDelta = TimeDelta::from_secs(1);
/// Answers in a period before the asker's address matters.
const FREE: u32 = 1000;
/// Answers beyond these for each group of addresses.
const EACH: u8 = 4;
/// Number of groups of addresses: a few thousand forged addresses leave most groups untouched.
const GROUPS: usize = 1 << 12;
/// How long used cookies are remembered: longer than they are valid.
const MEMORY: TimeDelta = TimeDelta::from_nanos(COOKIE_LIFE.as_nanos() * 2);
/// Most used cookies that are remembered.
const SPENT: usize = 1 << 14;
const SPENT_PER_SITE: u32 = 1 << 8;
/// Most ended tests whose late segments get no answer.
const OVER: usize = 1 << 8;

/// The owner of an address, for limits: an IPv4 address, or the first 56 bits of an IPv6 address, the usual allocation of one site.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Site(u64);

impl Site {
    #[inline]
    pub(super) fn of(address: &SocketAddr) -> Site {
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => Site(u64::from(ip.to_bits())),
            // No IPv6 site has zeros in its first bits, so the two cannot collide.
            IpAddr::V6(ip) => Site((ip.to_bits() >> 72) as u64),
        }
    }
}

/// One step of SplitMix64 (Steele, Lea and Flood 2014): spreads a number over all bits.
#[inline]
fn spread(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Shares out answers among the askers, so that a flood from some addresses does not leave others without. An address shares a group with a flood
/// for one period only: in the next it has a different group.
#[derive(Debug)]
pub(super) struct Answers {
    since: Timestamp,
    given: u32,
    salt: u64,
    groups: Box<[u8]>,
}

impl Answers {
    /// `salt` is a secret random number.
    pub(super) fn new(salt: u64) -> Self {
        Answers { since: Timestamp::ZERO, given: 0, salt, groups: vec![0; GROUPS].into() }
    }

    /// Whether a request from `site` gets an answer; counts the answer.
    #[inline]
    pub(super) fn allow(&mut self, now: Timestamp, site: Site) -> bool {
        if now.saturating_since(self.since) >= PERIOD {
            self.since = now;
            if self.given > 0 {
                self.given = 0;
                self.groups.fill(0);
            }
            self.salt = spread(self.salt);
        }
        if self.given >= FREE {
            let group = spread(self.salt ^ spread(site.0)) as usize % GROUPS;
            let Some(group) = self.groups.get_mut(group).filter(|group| **group < EACH) else { return false };
            *group += 1;
        }
        self.given = self.given.saturating_add(1);
        true
    }
}

/// Tokens of sessions that were opened or have ended.
#[derive(Debug, Default)]
pub(super) struct Spent {
    /// Tokens of opened sessions in the order of their opening, while their cookies are valid.
    order: VecDeque<(Timestamp, u64, Site)>,
    tokens: BTreeMap<u64, ()>,
    sites: BTreeMap<Site, u32>,
    over: VecDeque<u64>,
}

impl Spent {
    /// A session with this token was opened at `now`.
    pub(super) fn opened(&mut self, now: Timestamp, token: u64, site: Site) {
        self.order.push_back((now, token, site));
        self.tokens.insert(token, ());
        *self.sites.entry(site).or_default() += 1;
    }

    /// The session with this token has ended.
    pub(super) fn ended(&mut self, token: u64) {
        if self.over.len() >= OVER {
            self.over.pop_front();
        }
        self.over.push_back(token);
    }

    /// Whether the session with this token has ended: its late segments need no answer.
    pub(super) fn is_over(&self, token: u64) -> bool {
        self.over.contains(&token) || self.tokens.contains_key(&token)
    }

    /// Whether the cookie that makes this token has opened a session before.
    pub(super) fn contains(&mut self, now: Timestamp, token: u64) -> bool {
        while let Some(&(opened, token, site)) = self.order.front()
            && now.saturating_since(opened) >= MEMORY
        {
            self.order.pop_front();
            self.tokens.remove(&token);
            if let Some(count) = self.sites.get_mut(&site) {
                *count -= 1;
                if *count == 0 {
                    self.sites.remove(&site);
                }
            }
        }
        self.tokens.contains_key(&token)
    }

    /// Whether another session of this site can be remembered.
    pub(super) fn has_room(&self, site: Site) -> bool {
        self.order.len() < SPENT && self.sites.get(&site).is_none_or(|&count| count < SPENT_PER_SITE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(text: &str) -> Site {
        Site::of(&text.parse().unwrap())
    }

    #[test]
    fn a_site_is_an_ipv4_address_or_a_56() {
        assert_eq!(site("192.0.2.1:5"), site("[::ffff:192.0.2.1]:9"));
        assert_ne!(site("192.0.2.1:5"), site("192.0.2.2:5"));
        assert_eq!(site("[2001:db8:0:ff00::1]:5"), site("[2001:db8:0:ffab:7::2]:5"));
        assert_ne!(site("[2001:db8:0:fe00::1]:5"), site("[2001:db8:0:ff00::1]:5"));
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn a_flood_from_a_thousand_addresses_leaves_answers_for_another() {
        let mut answers = Answers::new(7);
        let honest = site("192.0.2.1:4000");
        let (mut given, mut heard) = (0, 0);
        for second in 1..=20 {
            let mut now = Timestamp::from_secs(second);
            for round in 0..100_u32 {
                for forged in 0..1000_u32 {
                    now += TimeDelta::from_micros(9);
                    let from = SocketAddr::from(([10, 1, (forged >> 8) as u8, forged as u8], 9));
                    given += u32::from(answers.allow(now, Site::of(&from)));
                }
                if round == 50 {
                    heard += u32::from(answers.allow(now, honest));
                }
            }
        }
        assert!(heard >= 12, "{heard} of 20 questions were answered, one in a second");
        let most = 20 * (FREE + 1000 * u32::from(EACH));
        assert!(given <= most && given > 20 * FREE, "{given} of two million");
    }

    #[test]
    fn few_questions_are_all_answered_whoever_asks() {
        let mut answers = Answers::new(7);
        let one = site("192.0.2.1:4000");
        assert!((0..FREE).all(|_| answers.allow(Timestamp::from_secs(1), one)));
        let more = (0..FREE).filter(|_| answers.allow(Timestamp::from_secs(1), one)).count();
        assert_eq!(more, usize::from(EACH));
        assert!(answers.allow(Timestamp::from_secs(2), one), "a second later");
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn used_cookies_are_remembered_while_they_are_good_and_take_bounded_memory() {
        let mut spent = Spent::default();
        let one = site("192.0.2.1:1");
        let mut opened = 0;
        for token in 0..100_000_u64 {
            let at = SocketAddr::from(([10, 0, (token >> 8) as u8, token as u8], 1));
            let now = Timestamp::from_nanos(token * 1000);
            assert!(!spent.contains(now, token));
            if spent.has_room(Site::of(&at)) {
                spent.opened(now, token, Site::of(&at));
                opened += 1;
            }
        }
        assert_eq!((opened, spent.tokens.len()), (SPENT, SPENT));
        assert!(!spent.has_room(one) && spent.contains(Timestamp::from_secs(1), 5));
        // Twenty seconds later all are forgotten, except ended sessions.
        spent.ended(5);
        let later = Timestamp::from_secs(21);
        assert!(!spent.contains(later, 5) && spent.is_over(5) && !spent.is_over(6));
        assert!(spent.has_room(one) && spent.sites.is_empty() && spent.order.is_empty());
        for token in 0..u64::from(SPENT_PER_SITE) {
            spent.opened(later, token, one);
        }
        assert!(!spent.has_room(one), "one site cannot use up the memory");
        assert!(spent.has_room(site("192.0.2.2:1")));
        for token in 0..1000 {
            spent.ended(token);
        }
        assert_eq!(spent.over.len(), OVER);
    }
}
