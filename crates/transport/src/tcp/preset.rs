//! Presets: options that make up the TCP of a certain system or decade.

use warpline_core::parameter::Words;
use warpline_core::{Bytes, TimeDelta};

use super::config::{Recovery, RtoVariance, TcpConfig};
use super::window::Window;

/// A set of values for the TCP options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Words)]
#[non_exhaustive]
pub enum TcpPreset {
    /// As Linux does today: SACK, DSACK, timestamps, window scaling, RACK-TLP, PRR, limited transmit, undo, initial window 10, delayed ACKs of
    /// 40 ms after 16 quick ones, smallest RTO 200 ms. The default.
    #[default]
    Modern,
    /// 4.3BSD-Tahoe: no options at all, a 500 ms clock, initial window 1.
    #[word("1988-tahoe")]
    Tahoe1988,
    /// 4.3BSD-Reno: as 1988-tahoe with fast recovery.
    #[word("1990-reno")]
    Reno1990,
    /// NewReno of 1999 (RFC 2582): partial ACKs, limited transmit, initial window 2.
    #[word("1999-newreno")]
    Newreno1999,
    /// ns-2's Agent/TCP/Sack1 with a delayed-ACK sink as it is usually run: SACK, limited transmit (`singledup_`), no timestamps, no undo, no
    /// RACK, initial window 2, delayed ACK 100 ms, smallest RTO 200 ms, unlimited window.
    #[word("ns2-sack1")]
    Ns2Sack1,
}

impl TcpPreset {
    /// The options that it stands for.
    ///
    /// ```
    /// use warpline_transport::tcp::{TcpConfig, TcpPreset};
    ///
    /// let old = TcpConfig { sack: true, ..TcpPreset::Reno1990.config() };
    /// assert_eq!((old.sack, old.timestamps), (true, false));
    /// assert_eq!(TcpPreset::Modern.config(), TcpConfig::default());
    /// ```
    pub fn config(self) -> TcpConfig {
        let ms = TimeDelta::from_millis;
        let bare = TcpConfig {
            // Not yet invented then.
            sack: false,
            dsack: false,
            timestamps: false,
            rack: false,
            tlp: false,
            prr: false,
            undo: false,
            max_reordering: 0,
            cwnd_validation: false,
            quick_acks: 0,
            rto_variance: RtoVariance::Rfc6298,
            ..TcpConfig::default()
        };
        // 4.3BSD's fast timer runs every 200 ms, its slow timer every 500 ms.
        let slow = TcpConfig { delayed_ack: ms(200), min_rto: ms(1000), max_rto: ms(64_000), ..bare.clone() };
        let bsd = TcpConfig {
            window_scaling: false,
            limited_transmit: false,
            initial_rto: ms(6000),
            tick: ms(500),
            initial_window: Window::Segments(1.0),
            initial_ssthresh: Some(Window::Bytes(65_535)),
            receive_buffer: Bytes(65_535),
            send_buffer: Some(Bytes(65_535)),
            ..slow.clone()
        };
        match self {
            TcpPreset::Modern => TcpConfig::default(),
            TcpPreset::Tahoe1988 => TcpConfig { recovery: Recovery::Tahoe, ..bsd },
            TcpPreset::Reno1990 => TcpConfig { recovery: Recovery::Reno, ..bsd },
            TcpPreset::Newreno1999 => TcpConfig {
                recovery: Recovery::NewReno,
                initial_rto: ms(3000),
                initial_window: Window::Segments(2.0),
                ..slow
            },
            TcpPreset::Ns2Sack1 => TcpConfig {
                sack: true,
                nagle: false,
                delayed_ack: ms(100),
                max_rto: ms(60_000),
                initial_rto: ms(3000),
                tick: ms(10),
                initial_window: Window::Segments(2.0),
                receive_buffer: Bytes(1_000_000_000),
                idle_restart: false,
                ..bare
            },
        }
    }
}
