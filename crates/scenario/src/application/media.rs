//! A video stream with a congestion control of its own.

use super::super::flow::Transport;

use super::Pattern;

pub use warpline_transport::media::MediaParams as Media;

impl Pattern for Media {
    fn carriers(&self) -> &'static [Transport] {
        &[Transport::Udp]
    }
}

#[cfg(test)]
mod tests {
    use warpline_transport::media::{Algorithm, ScreamEcn, ScreamParams};

    use super::super::super::{Cc, Scenario};

    fn read(flow: &str) -> Result<Scenario, String> {
        let text = format!(
            "duration = \"1s\"\nlink = [{{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }}]\n[[flow]]\nfrom = \"a\"\nto = \"b\"\n{flow}\n"
        );
        Scenario::from_toml("test.toml", &text, &[]).map_err(|error| error.to_string())
    }

    #[test]
    fn a_stream_has_a_congestion_control_for_media_and_its_parameters() {
        let scream =
            Cc::Media(Algorithm::Scream(ScreamParams { ecn: ScreamEcn::L4s, ..ScreamParams::default() }));
        for (cc, expected) in [
            ("", Cc::Media(Algorithm::default())),
            ("cc = \"gcc\"", Cc::Media(Algorithm::default())),
            ("cc = \"scream:ecn=l4s\"", scream.clone()),
            ("cc = { kind = \"scream\", ecn = \"l4s\" }", scream),
        ] {
            let scenario = read(&format!("app = \"media\"\n{cc}")).unwrap();
            assert_eq!(scenario.expand().flows[0].cc.as_ref(), Some(&expected), "{cc}");
            let again = Scenario::from_json(scenario.to_json(), &[], std::path::Path::new("")).unwrap();
            assert_eq!(again.flow, scenario.flow);
        }
    }

    #[test]
    fn congestion_controls_of_tcp_and_media_are_not_mixed_up() {
        for (flow, message) in [
            ("app = \"media\"\ncc = \"cubic\"", "app = \"media\" takes gcc or scream"),
            ("app = \"bulk\"\ncc = \"gcc\"", "`gcc` is a congestion control for media, and app = \"bulk\""),
            ("app = \"media\"\ntcp = { ecn = true }", "`tcp` is for TCP, and this flow is UDP"),
            ("app = \"media\"\ntransport = \"tcp\"", "app = \"media\" cannot run over TCP"),
            ("app = \"media\"\ncc = \"gcc:beta=2\"", "`beta` is out of range"),
            ("app = \"media\"\nmin_bitrate = \"2Mbit/s\"", "`min_bitrate` is out of range"),
            ("app = \"media\"\ncc = \"skream\"", "scream"),
        ] {
            let told = read(flow).unwrap_err();
            assert!(told.contains(message), "{flow}: {told}");
        }
    }
}
