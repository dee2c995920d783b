"""What is measured: one engine a file, all behind `engine.Engine`."""
