//! A playground: gateways of its own, an example zone, one failure and its repair.
