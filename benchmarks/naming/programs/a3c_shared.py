"""A3C: two workers that act and learn, with one model and one optimizer in shared memory, and a process that waits for both."""

import gymnasium as gym
import torch
from benchmarks.naming.truth import iteration, operation
from torch import multiprocessing, nn
from torch.distributions import Categorical

FRAMEWORK = "A3C, shared model"
WORKERS, UPDATES, STEPS, GAMMA = 2, 400, 20, 0.98


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head, self.value = (
            nn.Linear(4, 256),
            nn.Linear(256, 2),
            nn.Linear(256, 1),
        )

    def forward(self, x):
        hidden = torch.relu(self.body(x))
        return Categorical(logits=self.head(hidden)), self.value(hidden)


def work(shared, number):
    torch.manual_seed(number)
    torch.set_num_threads(1)
    own = ActorCritic()
    optimizer = torch.optim.Adam(shared.parameters(), lr=2e-4)
    env = gym.make("CartPole-v1")
    with operation("simulation"):
        seen, _ = env.reset(seed=number)
    for _ in range(UPDATES):
        iteration()
        with operation("backpropagation"):
            own.load_state_dict(shared.state_dict())
        rewards, logs, values, over = [], [], [], False
        for _ in range(STEPS):
            with operation("inference"):
                policy, value = own(torch.from_numpy(seen))
                action = policy.sample()
                chosen, log = action.item(), policy.log_prob(action)
            with operation("simulation"):
                seen, reward, ended, cut, _ = env.step(chosen)
            with operation("replay"):
                rewards.append(reward / 100)
                logs.append(log)
                values.append(value)
            over = ended or cut
            if over:
                with operation("simulation"):
                    seen, _ = env.reset()
                break
        with operation("backpropagation"):
            target = 0.0 if over else own(torch.from_numpy(seen))[1].item()
            loss = 0.0
            for reward, log, value in zip(
                rewards[::-1], logs[::-1], values[::-1], strict=True
            ):
                target = reward + GAMMA * target
                advantage = target - value
                loss = loss + advantage.square() - log * advantage.detach()
            own.zero_grad()
            loss.mean().backward()
            for mine, theirs in zip(own.parameters(), shared.parameters(), strict=True):
                theirs.grad = mine.grad
            optimizer.step()


if __name__ == "__main__":
    model = ActorCritic()
    model.share_memory()
    workers = [
        multiprocessing.Process(target=work, args=(model, number))
        for number in range(WORKERS)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
