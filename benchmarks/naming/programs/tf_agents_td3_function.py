"""The TD3 of tf_agents_td3.py with drivers and agent as tf.functions, as TF-Agents' examples do by default."""

import os

os.environ["USE_TF_FUNCTIONS"] = "1"
import benchmarks.naming.programs.tf_agents_td3  # noqa: F401

FRAMEWORK = "TF-Agents, tf.function"
ENVIRONMENT = "tensorflow"
