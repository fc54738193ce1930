"""Runs of several hosts: parts recorded on the hosts' own disks are brought to one folder."""
