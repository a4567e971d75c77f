"""The minimal traceable package: written, verified, explained."""
