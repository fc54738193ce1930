"""Runs of several hosts: parts recorded on the hosts' own disks are moved into one folder."""
