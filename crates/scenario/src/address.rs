//! IP addresses and networks as scenarios write them.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address<A>(pub A);

macro_rules! address {
    ($address:ty, $name:literal, $format:literal, $description:literal, $example:literal) => {
        impl Serialize for Address<$address> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0.to_string())
            }
        }
        impl<'de> Deserialize<'de> for Address<$address> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<'_, str>::deserialize(deserializer)?;
                text.parse().map(Address).map_err(|_| D::Error::custom(concat!("expected ", $description)))
            }
        }
        impl JsonSchema for Address<$address> {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }
            fn schema_id() -> Cow<'static, str> {
                concat!("warpline::", $name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "format": $format, "description": $description, "examples": [$example] })
            }
        }
    };
}

address!(Ipv4Addr, "Ipv4Address", "ipv4", "An IPv4 address.", "192.0.2.1");
address!(Ipv6Addr, "Ipv6Address", "ipv6", "An IPv6 address.", "2001:db8::1");
address!(IpAddr, "IpAddress", "ip", "An IPv4 or IPv6 address.", "192.0.2.1");

/// Addresses with a common prefix, or a single one: `192.0.2.0/24`, `192.0.2.7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network(pub IpNet);

impl Network {
    /// The only address, if there is one only.
    pub fn single(&self) -> Option<IpAddr> {
        (self.0.prefix_len() == self.0.max_prefix_len()).then(|| self.0.addr())
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.single() {
            Some(address) => address.fmt(f),
            None => self.0.fmt(f),
        }
    }
}

impl FromStr for Network {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if !text.contains('/') {
            let address: IpAddr =
                text.parse().map_err(|_| "it is neither an address nor a network".to_owned())?;
            return Ok(Network(address.into()));
        }
        let network: IpNet = text.parse().map_err(|_| {
            "a network is an address, a slash and the length of the prefix: 192.0.2.0/24".to_owned()
        })?;
        match network.trunc() {
            whole if whole == network => Ok(Network(network)),
            whole => Err(format!("the network with that prefix is {whole}")),
        }
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'_, str>::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for Network {
    fn schema_name() -> Cow<'static, str> {
        "IpNetwork".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "format": "ip-network",
            "description": "An address, or a network with the length of its prefix.",
            "examples": ["192.0.2.0/24", "192.0.2.7"],
        })
    }
}
