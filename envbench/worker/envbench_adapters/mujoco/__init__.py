"""MuJoCo's physics alone: rollout, MJX and MuJoCo Warp."""
