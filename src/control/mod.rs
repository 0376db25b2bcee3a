//! Joins sources, health and force into the view that is served.
