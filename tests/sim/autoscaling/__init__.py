"""Tests of the autoscaler in the loop of replays."""
