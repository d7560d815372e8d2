from tacit.adapters.migrate import run_environment

run_environment()
