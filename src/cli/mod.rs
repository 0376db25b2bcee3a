//! The command line, from one definition: help, manual, completion.
