"""How an application, or Flower, trains a model of its own on a device."""
